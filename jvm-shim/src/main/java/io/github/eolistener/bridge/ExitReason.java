package io.github.eolistener;

/** How the life of one bridge ended, and why. */
final class Outcome {
  enum Kind {
    /** As it was told to. */
    ENDED,
    /** It ran, and is gone or was killed: another one may do better. */
    BROKEN,
    /** It never ran: the interpreter or what it has installed is not fit. */
    UNUSABLE,
    /** It refuses the settings, or is of another version: no other one would do better. */
    REFUSED
  }

  private static final String INSTALL =
      "install eo-listener there, or name an interpreter that has it: --conf "
          + Interpreter.SETTING + "=/path/to/python";

  final Kind kind;
  final String why;

  /** What the user can do; empty where that is said by {@code why}, or nothing is to be done. */
  final String fix;

  Outcome(Kind kind, String why) {
    this(kind, why, "");
  }

  private Outcome(Kind kind, String why, String fix) {
    this.kind = kind;
    this.why = why;
    this.fix = fix;
  }

  /** The interpreter is not there, or has not got the package. */
  static Outcome notInstalled(String why) {
    return new Outcome(Kind.UNUSABLE, why, INSTALL);
  }

  /** It has the package, and ends before it has said anything. */
  static Outcome unusable(String why, Interpreter interpreter) {
    return new Outcome(
        Kind.UNUSABLE, why, "see what `" + interpreter.program + " -m eo_listener.bridge` says there");
  }
}
