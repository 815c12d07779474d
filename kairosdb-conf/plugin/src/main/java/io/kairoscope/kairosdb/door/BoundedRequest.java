package io.kairoscope.kairosdb.door;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import javax.servlet.ReadListener;
import javax.servlet.ServletInputStream;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletRequestWrapper;

/** A request whose body ends in an error where it has too many bytes. */
final class BoundedRequest extends HttpServletRequestWrapper {
  private final long limit;
  private ServletInputStream stream;
  private String tooLarge;

  BoundedRequest(HttpServletRequest request, long limit) {
    super(request);
    this.limit = limit;
  }

  /** What is to be said to the sender; null if the body was not too large so far. */
  String tooLarge() {
    return tooLarge;
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
      in = new LimitedInput(whole, limit, "");
    }

    @Override
    public int read() throws IOException {
      try {
        return in.read();
      } catch (TooLargeException error) {
        tooLarge = error.getMessage();
        throw error;
      }
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
      try {
        return in.read(bytes, offset, length);
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
