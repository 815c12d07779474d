package io.kairoscope.kairosdb.door;

import io.kairoscope.kairosdb.metrics.Histogram;
import io.kairoscope.kairosdb.queue.NotTakenError;
import io.kairoscope.kairosdb.queue.PointQueue;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Semaphore;
import java.util.zip.GZIPInputStream;
import java.util.zip.ZipException;
import javax.inject.Inject;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.FilterConfig;
import javax.servlet.ServletException;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.queue.QueueProcessor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes {@code POST /api/v1/datapoints} in place of KairosDB's own resource, and bounds the bodies
 * of all other requests.
 *
 * <p>KairosDB turns some numbers into others and says 204, keeps the good points of a request out
 * after a bad one, and answers our troubles with pages of HTML. It also takes more than twice the
 * CPU to read a point, and Jersey's for the request. Its event bus, which works by reflection, is
 * not used here: filters that others hang into it see no points of this door.
 *
 * <p>204 is said when all points of the request are in the queue's file, and {@link
 * PointQueue#sync} has made of that what the configuration asks for.
 */
public final class DoorFilter implements Filter {
  private static final Logger logger = LoggerFactory.getLogger(DoorFilter.class);
  private static final String PATH = "/api/v1/datapoints";
  private static final String QUERY = PATH + "/query";
  // What must be answered whatever else is asked: health, this node's own figures.
  private static final List<String> ALWAYS =
      List.of("/api/v1/health/", "/api/v1/kairoscope/", "/api/v1/version");
  // Queries and the like at a time, of the 200 threads of the web server: KairosDB works on five
  // queries, and has the others wait with their threads, so that points would find none.
  private static final int OTHERS_AT_ONCE = 64;
  private static final int SERVER_ERROR = HttpServletResponse.SC_INTERNAL_SERVER_ERROR;

  private final PointQueue queue;
  private final DoorStats stats;
  private final long limit;
  private final boolean ingest;
  private final ThreadLocal<PointsReader> readers;
  private final LargeRequests others;
  private final Semaphore othersAtOnce = new Semaphore(OTHERS_AT_ONCE);
  private final SlowBodies slow;
  private final OncePerSecond unavailableLog = new OncePerSecond();
  private final OncePerSecond errorLog = new OncePerSecond();

  @Inject
  public DoorFilter(
      QueueProcessor queue,
      KairosDataPointFactory factories,
      DoorSettings settings,
      DoorStats stats) {
    this(
        (PointQueue) queue,
        factories,
        settings,
        stats,
        SlowBodies.watched(stats.cut),
        Runtime.getRuntime().maxMemory() / 4);
  }

  DoorFilter(
      PointQueue queue,
      KairosDataPointFactory factories,
      DoorSettings settings,
      DoorStats stats,
      SlowBodies slow,
      long memory) {
    this.queue = queue;
    this.stats = stats;
    this.slow = slow;
    others = new LargeRequests(memory / 2);
    limit = settings.maxRequestBytes();
    ingest = settings.ingest();
    LargeRequests large = new LargeRequests(memory);
    long recordBytes = settings.maxRecordBytes();
    readers =
        ThreadLocal.withInitial(() -> new PointsReader(queue, factories, large, recordBytes));
  }

  @Override
  public void init(FilterConfig config) {}

  @Override
  public void destroy() {}

  @Override
  public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    HttpServletRequest http = (HttpServletRequest) request;
    HttpServletResponse answer = (HttpServletResponse) response;
    String path = path(http);
    boolean points = ingest && "POST".equals(http.getMethod()) && isPoints(path);
    long sinceNs = System.nanoTime();
    try (SlowBodies.Body body = slow.begin(http::getRemoteAddr, () -> cut(http))) {
      serve(points, http, answer, chain, body);
    } finally {
      Histogram times =
          points ? stats.ingestNs : path.startsWith(QUERY) ? stats.queryNs : stats.otherNs;
      times.observe(System.nanoTime() - sinceNs);
    }
  }

  private static void cut(HttpServletRequest request) {
    Request.getBaseRequest(request).getHttpChannel().getEndPoint().close();
  }

  private void serve(
      boolean points,
      HttpServletRequest http,
      HttpServletResponse answer,
      FilterChain chain,
      SlowBodies.Body body)
      throws IOException, ServletException {
    if (http.getContentLengthLong() > limit) {
      if (points) {
        stats.answered(Answer.TOO_LARGE, 0);
      } else {
        stats.tooLarge.increment();
      }
      Answer.send(
          answer,
          Answer.TOO_LARGE,
          List.of("The request has more than " + (limit >> 20) + " MB; send less at a time"),
          points ? 0 : -1,
          -1);
    } else if (points) {
      take(http, answer, body);
    } else if (ALWAYS.stream().anyMatch(path(http)::startsWith)) {
      pass(http, answer, chain, body);
    } else if (othersAtOnce.tryAcquire()) {
      try {
        pass(http, answer, chain, body);
      } finally {
        othersAtOnce.release();
      }
    } else {
      busy(answer, "More than " + OTHERS_AT_ONCE + " queries at once");
    }
  }

  // As it was decoded, so that no spelling of it comes to KairosDB's own door.
  private static String path(HttpServletRequest request) {
    String more = request.getPathInfo();
    return more == null ? request.getServletPath() : request.getServletPath() + more;
  }

  private static boolean isPoints(String path) {
    return path.startsWith(PATH)
        && (path.length() == PATH.length()
            || path.length() == PATH.length() + 1 && path.endsWith("/"));
  }

  private void busy(HttpServletResponse answer, String why) throws IOException {
    stats.busy.increment();
    Answer.send(answer, HttpServletResponse.SC_SERVICE_UNAVAILABLE, List.of(why), -1, -1);
  }

  private void take(HttpServletRequest request, HttpServletResponse answer, SlowBodies.Body itsBody)
      throws IOException {
    PointsReader reader = readers.get();
    Errors errors = new Errors();
    int status = HttpServletResponse.SC_NO_CONTENT;
    InputStream sent = request.getInputStream();
    LimitedInput limited = new LimitedInput(sent, limit, "", itsBody);
    try (InputStream body = unpacked(request, limited)) {
      reader.read(body, errors);
    } catch (MalformedException | ZipException error) {
      errors.add(said(error));
      status = HttpServletResponse.SC_BAD_REQUEST;
    } catch (TooLargeException error) {
      errors.add(error.getMessage());
      status = Answer.TOO_LARGE;
    } catch (EOFException error) {
      // Of gzip, or of a sender that went away: that one reads no answer.
      errors.add("Invalid json. No content due to end of input.");
      status = HttpServletResponse.SC_BAD_REQUEST;
    } catch (IOException error) {
      logger.debug("A request could not be read", error);
      errors.add("The request could not be read to its end: " + error.getMessage());
      status = HttpServletResponse.SC_BAD_REQUEST;
    } catch (NotTakenError error) {
      status = unavailable(error, errors);
    } catch (Throwable error) {
      status = failed(error, errors);
    }
    long taken = reader.taken();
    try {
      queue.sync();
    } catch (NotTakenError error) {
      status = unavailable(error, errors);
      taken = 0;
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      status = unavailable(new NotTakenError("KairosDB is shutting down", error), errors);
      taken = 0;
    } catch (Throwable error) {
      status = failed(error, errors);
      taken = 0;
    }
    stats.bytes.add(limited.count());
    answer(answer, status, errors, taken, reader);
    if (status != HttpServletResponse.SC_NO_CONTENT) {
      drain(new LimitedInput(sent, limit, "", itsBody));
    }
  }

  private void answer(
      HttpServletResponse answer, int status, Errors errors, long taken, PointsReader reader)
      throws IOException {
    stats.refused.add(reader.refused() - reader.postponed());
    int told = status;
    if (status == HttpServletResponse.SC_NO_CONTENT && errors.any()) {
      told = reader.postponed() > 0 ? Answer.TOO_MANY : HttpServletResponse.SC_BAD_REQUEST;
    }
    stats.answered(told, reader.taken());
    if (told == HttpServletResponse.SC_NO_CONTENT) {
      Answer.headers(answer);
      answer.setStatus(told);
    } else {
      Answer.send(answer, told, errors.messages(), taken, reader.refused());
    }
  }

  /** As KairosDB takes it: by its content type, which it prefers, or its encoding. */
  private InputStream unpacked(HttpServletRequest request, InputStream sent) throws IOException {
    String type = request.getContentType();
    String encoding = request.getHeader("Content-Encoding");
    boolean packed =
        type != null && type.regionMatches(true, 0, "application/gzip", 0, 16)
            || encoding != null && encoding.toLowerCase(Locale.ROOT).contains("gzip");
    if (!packed) {
      return sent;
    }
    return new LimitedInput(new GZIPInputStream(sent, 8 << 10), limit, " when unpacked", null);
  }

  private static String said(IOException error) {
    return error instanceof ZipException ? "Not gzip: " + error.getMessage() : error.getMessage();
  }

  private int unavailable(NotTakenError error, Errors errors) {
    unavailableLog.run(
        before ->
            logger.warn(
                "Points are not taken: {}{} ({} more times since the last such line)",
                error.getMessage(),
                error.getCause() == null ? "" : ": " + error.getCause(),
                before));
    errors.add(error.getMessage());
    return HttpServletResponse.SC_SERVICE_UNAVAILABLE;
  }

  private int failed(Throwable error, Errors errors) {
    errorLog.run(
        before ->
            logger.error(
                "A request failed ({} more since the last such line)", before, error));
    errors.add("KairosDB failed to take the request: " + error.getClass().getSimpleName());
    return SERVER_ERROR;
  }

  /**
   * Reads what the sender still sends, up to the limit, and throws it away: one that is told while
   * it still sends may see its connection reset, and never the answer.
   */
  private void drain(InputStream sent) {
    byte[] nothing = new byte[8 << 10];
    try {
      while (sent.read(nothing) > 0) {
        // on, until it ends or is too much
      }
    } catch (IOException | RuntimeException gone) {
      logger.debug("The rest of a refused request could not be read", gone);
    }
  }

  /** To KairosDB's own resources, which read a body whole. */
  private void pass(
      HttpServletRequest request,
      HttpServletResponse answer,
      FilterChain chain,
      SlowBodies.Body body)
      throws IOException, ServletException {
    BoundedRequest bounded = new BoundedRequest(request, limit, others, body);
    try (bounded) {
      chain.doFilter(bounded, answer);
    } catch (NotTakenError error) {
      busy(answer, error.getMessage());
    } catch (IOException | ServletException | RuntimeException error) {
      if (bounded.tooLarge() == null || answer.isCommitted()) {
        throw error;
      }
    }
    if (bounded.tooLarge() != null) {
      stats.tooLarge.increment();
      Answer.send(answer, Answer.TOO_LARGE, List.of(bounded.tooLarge()), -1, -1);
    }
  }
}
