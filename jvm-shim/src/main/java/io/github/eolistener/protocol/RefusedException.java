package io.github.eolistener.protocol;

/** A call cannot be carried out; the message is our own, gives the reason and holds no secret. */
public final class RefusedException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public RefusedException(String message) {
    super(message);
  }
}
