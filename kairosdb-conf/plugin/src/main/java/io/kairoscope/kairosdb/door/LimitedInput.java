package io.kairoscope.kairosdb.door;

import java.io.IOException;
import java.io.InputStream;

/** A stream that ends in an error after so many bytes: no sender decides what our heap holds. */
final class LimitedInput extends InputStream {
  private final InputStream in;
  private final long limit;
  private final String what;
  private long left;

  LimitedInput(InputStream in, long limit, String what) {
    this.in = in;
    this.limit = limit;
    this.what = what;
    left = limit;
  }

  @Override
  public int read() throws IOException {
    int read = in.read();
    if (read >= 0) {
      count(1);
    }
    return read;
  }

  @Override
  public int read(byte[] bytes, int offset, int length) throws IOException {
    int read = in.read(bytes, offset, length);
    if (read > 0) {
      count(read);
    }
    return read;
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
