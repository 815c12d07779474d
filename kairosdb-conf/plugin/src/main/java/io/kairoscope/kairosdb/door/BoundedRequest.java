package io.kairoscope.kairosdb.door;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import javax.servlet.ReadListener;
import javax.servlet.ServletInputStream;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletRequestWrapper;

/** A request whose body ends in an error where it is too large, or there is no room for it now. */
final class BoundedRequest extends HttpServletRequestWrapper implements Closeable {
  /** What a byte of a query takes of the heap: as text, and as the objects made of it. */
  static final int HEAP_PER_BYTE = 8;

  private final long limit;
  private final LargeRequests memory;
  private final SlowBodies.Body body;
  private long reserved;
  private ServletInputStream stream;
  private String tooLarge;

  BoundedRequest(
      HttpServletRequest request, long limit, LargeRequests memory, SlowBodies.Body body) {
    super(request);
    this.limit = Math.min(limit, memory.limit() / HEAP_PER_BYTE);
    this.memory = memory;
    this.body = body;
  }

  /** What is to be said to the sender; null if the body was not too large so far. */
  String tooLarge() {
    return tooLarge;
  }

  private int reserve(int read) {
    if (read > 0) {
      memory.take((long) read * HEAP_PER_BYTE);
      reserved += (long) read * HEAP_PER_BYTE;
    }
    return read;
  }

  /** The request is over. */
  @Override
  public void close() {
    memory.give(reserved);
    reserved = 0;
  }

  @Override
  public ServletInputStream getInputStream() throws IOException {
    if (stream == null) {
      stream = new Bounded(super.getInputStream());
    }
    return stream;
  }

  @Override
  public BufferedReader getReader() throws IOException {
    String name = getCharacterEncoding();
    Charset charset = name == null ? StandardCharsets.UTF_8 : Charset.forName(name);
    return new BufferedReader(new InputStreamReader(getInputStream(), charset));
  }

  private final class Bounded extends ServletInputStream {
    private final ServletInputStream whole;
    private final LimitedInput in;

    Bounded(ServletInputStream whole) {
      this.whole = whole;
      in = new LimitedInput(whole, limit, "", body);
    }

    @Override
    public int read() throws IOException {
      try {
        int read = in.read();
        reserve(read < 0 ? 0 : 1);
        return read;
      } catch (TooLargeException error) {
        tooLarge = error.getMessage();
        throw error;
      }
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
      try {
        return reserve(in.read(bytes, offset, length));
      } catch (TooLargeException error) {
        tooLarge = error.getMessage();
        throw error;
      }
    }

    @Override
    public boolean isFinished() {
      return whole.isFinished();
    }

    @Override
    public boolean isReady() {
      return whole.isReady();
    }

    @Override
    public void setReadListener(ReadListener listener) {
      whole.setReadListener(listener);
    }
  }
}
