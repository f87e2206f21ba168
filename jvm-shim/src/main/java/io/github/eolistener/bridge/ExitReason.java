package io.github.eolistener.bridge;

/** How one bridge process ended, and why. */
final class ExitReason {
  enum Kind {
    /** It stopped as requested. */
    REQUESTED,
    /** It ran, then exited or was killed: another process may work. */
    FAILED,
    /** It never ran: the interpreter, or what is installed there, does not work. */
    UNUSABLE,
    /** It rejects the settings, or is of another version: no other process would work. */
    REJECTED
  }

  private static final String INSTALL =
      "install eo-listener there, or name an interpreter that has it: --conf "
          + PythonInterpreter.SETTING + "=/path/to/python";

  final Kind kind;
  final String cause;

  /** What the user can do; empty where nothing can be suggested. */
  final String fix;

  ExitReason(Kind kind, String cause) {
    this(kind, cause, "");
  }

  ExitReason(Kind kind, String cause, String fix) {
    this.kind = kind;
    this.cause = cause;
    this.fix = fix;
  }

  /** The interpreter does not exist, or does not have the package. */
  static ExitReason notInstalled(String cause) {
    return new ExitReason(Kind.UNUSABLE, cause, INSTALL);
  }

  /** The package is installed, but exits before its first line. */
  static ExitReason unusable(String cause, PythonInterpreter interpreter) {
    return new ExitReason(
        Kind.UNUSABLE,
        cause,
        "run `" + interpreter.program + " -m eo_listener.bridge` there and read its error");
  }
}
