package io.kairoscope.kairosdb.door;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.Histogram;
import io.kairoscope.kairosdb.metrics.MetricSource;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import javax.servlet.http.HttpServletResponse;

/** What came through the doors, since the start. */
public final class DoorStats implements MetricSource {
  // From what a request with one point takes to what a loader waits for, and a delete: 30 s.
  private static final long[] REQUEST_MS = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000
  };
  private static final int[] CODES = {
    HttpServletResponse.SC_NO_CONTENT,
    HttpServletResponse.SC_BAD_REQUEST,
    Answer.TOO_LARGE,
    Answer.TOO_MANY,
    HttpServletResponse.SC_INTERNAL_SERVER_ERROR,
    HttpServletResponse.SC_SERVICE_UNAVAILABLE
  };

  /** Requests with points over REST by their answer, as in CODES, and points that were taken. */
  private final LongAdder[] requests = adders(CODES.length);
  private final LongAdder[] points = adders(CODES.length);

  /** Points over REST that were the sender's mistake. */
  final LongAdder refused = new LongAdder();

  /** Bytes of the bodies of requests with points, as they came: packed, if they were. */
  final LongAdder bytes = new LongAdder();

  /** Other requests that were too large. */
  final LongAdder tooLarge = new LongAdder();

  /** Requests without points that were refused, as too many came at once. */
  final LongAdder busy = new LongAdder();

  /** Requests whose bodies were too slow in coming. */
  final LongAdder cut = new LongAdder();

  /** Points over telnet that were taken, and lines that were not. */
  final LongAdder telnetPoints = new LongAdder();
  final LongAdder telnetErrors = new LongAdder();

  /** Queries that were answered without all that waited of their metric. */
  final LongAdder staleQueries = new LongAdder();

  /** Deletes that were refused, as what waited could not be stored first. */
  final LongAdder refusedDeletes = new LongAdder();

  /** Requests, ns: with points, with queries, and all others. */
  final Histogram ingestNs = Histogram.seconds(TimeUnit.NANOSECONDS, REQUEST_MS);
  final Histogram queryNs = Histogram.seconds(TimeUnit.NANOSECONDS, REQUEST_MS);
  final Histogram otherNs = Histogram.seconds(TimeUnit.NANOSECONDS, REQUEST_MS);

  private static LongAdder[] adders(int count) {
    LongAdder[] adders = new LongAdder[count];
    Arrays.setAll(adders, i -> new LongAdder());
    return adders;
  }

  /**
   * A request with points was answered.
   *
   * @param code one of CODES
   * @param taken its points that are in the queue's file, also if the sender is told otherwise
   */
  void answered(int code, long taken) {
    int at = 0;
    while (CODES[at] != code) {
      at++;
    }
    requests[at].increment();
    points[at].add(taken);
  }

  @Override
  public void tell(Exposition to) {
    Exposition.Family taken =
        to.counter(
            "kairosdb_ingest_points_total",
            "Points that were taken; code is the answer to their request, none if not known.");
    for (int i = 0; i < CODES.length; i++) {
      taken.value(points[i].sum(), "protocol", "rest", "code", "" + CODES[i]);
    }
    taken.value(telnetPoints.sum(), "protocol", "telnet", "code", "");
    Exposition.Family answered =
        to.counter("kairosdb_ingest_requests_total", "Requests with points, by their answer.");
    for (int i = 0; i < CODES.length; i++) {
      answered.value(requests[i].sum(), "code", "" + CODES[i]);
    }
    counter(
        to,
        "ingest_refused_points_total",
        "Points over REST that were refused, as their sender's mistake.",
        refused);
    counter(
        to, "ingest_bytes_total", "Bytes of requests with points, packed if they were.", bytes);
    counter(to, "telnet_errors_total", "Lines over telnet that were not taken.", telnetErrors);
    counter(
        to,
        "requests_too_large_total",
        "Requests without points that had too large a body.",
        tooLarge);
    counter(
        to,
        "requests_busy_total",
        "Requests without points that were refused, as too many came at once.",
        busy);
    counter(
        to,
        "requests_cut_total",
        "Requests whose bodies were too slow in coming; their connections were cut.",
        cut);
    counter(
        to,
        "query_stale_total",
        "Queries that were answered without all that waited in the queue.",
        staleQueries);
    counter(
        to,
        "deletes_refused_total",
        "Deletes that were refused, as points that waited could not be stored first.",
        refusedDeletes);
    to.histogram(
            "kairosdb_request_duration_seconds",
            "Requests, from their headers to their answer: the body is waited for in between.")
        .values(ingestNs, "kind", "ingest")
        .values(queryNs, "kind", "query")
        .values(otherNs, "kind", "other");
  }

  private static void counter(Exposition to, String name, String help, LongAdder value) {
    to.counter("kairosdb_" + name, help).value(value.sum());
  }
}
