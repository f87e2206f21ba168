package io.github.eolistener;

/** Something cannot be done; the message is ours, says why, and holds no secret. */
final class Refusal extends RuntimeException {
  private static final long serialVersionUID = 1L;

  Refusal(String message) {
    super(message);
  }
}
