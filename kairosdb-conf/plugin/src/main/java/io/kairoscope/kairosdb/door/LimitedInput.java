package io.kairoscope.kairosdb.door;

import java.io.IOException;
import java.io.InputStream;

/**
 * A stream that ends in an error after so many bytes: no sender decides what our heap holds. And it
 * tells when bytes have to be waited for.
 */
final class LimitedInput extends InputStream {
  private final InputStream in;
  private final long limit;
  private final String what;
  private final SlowBodies.Body body;
  private long left;

  /**
   * @param body told of waiting; null if what it reads from tells it
   */
  LimitedInput(InputStream in, long limit, String what, SlowBodies.Body body) {
    this.in = in;
    this.body = body;
    this.limit = limit;
    this.what = what;
    left = limit;
  }

  @Override
  public int read() throws IOException {
    boolean waits = waits();
    int read = in.read();
    if (waits) {
      body.came();
    }
    if (read >= 0) {
      count(1);
    }
    return read;
  }

  @Override
  public int read(byte[] bytes, int offset, int length) throws IOException {
    boolean waits = waits();
    int read = in.read(bytes, offset, length);
    if (waits) {
      body.came();
    }
    if (read > 0) {
      count(read);
    }
    return read;
  }

  private boolean waits() throws IOException {
    boolean waits = body != null && in.available() == 0;
    if (waits) {
      body.waits();
    }
    return waits;
  }

  /** How many bytes were read. */
  long count() {
    return limit - left;
  }

  private void count(int read) throws TooLargeException {
    left -= read;
    if (left < 0) {
      throw new TooLargeException(
          "The request has more than " + (limit >> 20) + " MB" + what + "; send less at a time");
    }
  }

  @Override
  public int available() throws IOException {
    return in.available();
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
