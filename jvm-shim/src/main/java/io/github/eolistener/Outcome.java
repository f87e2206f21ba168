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

  final Kind kind;
  final String why;

  Outcome(Kind kind, String why) {
    this.kind = kind;
    this.why = why;
  }
}
