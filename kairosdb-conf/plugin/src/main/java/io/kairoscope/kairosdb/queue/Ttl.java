package io.kairoscope.kairosdb.queue;

import java.time.Instant;

/**
 * How long points live, in the store and in its index; the same for the doors, which refuse what
 * the store would refuse, and for the writes.
 *
 * <p>A time to live is counted from the moment a point was put, and not from its write: a point
 * that waited for hours in the file is not younger for it. With {@code
 * align_datapoint_ttl_with_timestamp} it is counted from the point's own time, as in KairosDB.
 */
final class Ttl {
  /** Twenty years: Cassandra and ScyllaDB refuse the whole batch for one point beyond. */
  static final int MAX_S = 630_720_000;

  // The node that looks at an expiry has a clock of its own.
  private static final int CLOCKS_S = 300;

  private final int defaultS;
  private final boolean forceDefault;
  private final boolean align;
  private final long latestExpiryS;

  /**
   * @param defaultS for points that bring none; 0 is for ever
   * @param forceDefault whether that is for all points
   * @param align whether it is counted from the point's time
   * @param latestExpiryS what the store takes at most, s since 1970; Long.MAX_VALUE is no limit.
   *     Cassandra without {@code storage_compatibility_mode: NONE} has one in January 2038
   */
  Ttl(int defaultS, boolean forceDefault, boolean align, long latestExpiryS) {
    this.defaultS = defaultS;
    this.forceDefault = forceDefault;
    this.align = align;
    this.latestExpiryS = latestExpiryS;
  }

  /**
   * Why the store would never take a point with this time to live; null if it would.
   *
   * @param ttlS as it came with the point; 0 is "none given"
   * @param timeMs of the point
   * @param takenAtMs when it is put
   */
  String refusal(int ttlS, long timeMs, long takenAtMs) {
    if (ttlS < 0 && !forceDefault) {
      return "a ttl of " + ttlS + " s: it cannot be below 0";
    }
    int ttl = effective(ttlS);
    if (ttl == 0) {
      return null;
    }
    if (ttl > MAX_S) {
      return "a ttl of " + ttl + " s: the store takes at most " + MAX_S;
    }
    // Aligned, a point of the future has more; beyond the most it is cut, as it has that from us.
    long left = Math.min(leftS(ttl, timeMs, takenAtMs, takenAtMs), MAX_S);
    long expiry = seconds(takenAtMs) + left;
    if (left > 0 && expiry > latestExpiryS) {
      return "a ttl of "
          + ttl
          + " s: it would end at "
          + Instant.ofEpochSecond(expiry)
          + ", and the store takes nothing after "
          + Instant.ofEpochSecond(latestExpiryS);
    }
    return null;
  }

  /** Whether a point lives for ever with this time to live: then there is nothing to refuse. */
  boolean isForEver(int ttlS) {
    return ttlS >= 0 && effective(ttlS) == 0;
  }

  /** Time to live from now on; 0 is for ever, and below 0 it is over. */
  int left(Point point, long nowMs) {
    int ttl = effective(point.ttlS());
    if (ttl == 0) {
      return 0;
    }
    long left = leftS(ttl, point.time(), point.takenAt(), nowMs);
    if (left <= 0) {
      return -1;
    }
    // A clock that was set back makes no point younger than it was; it might be refused then.
    return clamp((int) Math.min(left, align ? MAX_S : Math.min(ttl, MAX_S)), nowMs);
  }

  /** The second since 1970 in which a point ends that is written now; Long.MAX_VALUE is never. */
  long expiryS(Point point, long nowMs) {
    int left = left(point, nowMs);
    return left == 0 ? Long.MAX_VALUE : seconds(nowMs) + left;
  }

  /**
   * When a point ends, at the latest, that brings no time to live and was put by now, s since 1970;
   * Long.MAX_VALUE is never.
   *
   * @param latestTimeMs of such a point
   */
  long defaultExpiryS(long latestTimeMs, long nowMs) {
    return defaultS == 0
        ? Long.MAX_VALUE
        : seconds(align ? latestTimeMs : nowMs) + defaultS;
  }

  /**
   * Time to live of the index of a row: as long as any point can be in it, or as long as the store
   * can keep it. 0 is for ever.
   *
   * @param expiryS of the point that lives longest
   */
  int index(long expiryS, long widthS, long nowMs) {
    if (expiryS == Long.MAX_VALUE) {
      return 0;
    }
    long ttl = Math.min(Math.max(0, expiryS - seconds(nowMs)) + widthS, MAX_S);
    return clamp((int) ttl, nowMs);
  }

  /** A time to live that the store takes now: it may have been worked out long ago. */
  int clamp(int ttlS, long nowMs) {
    if (ttlS == 0 || latestExpiryS == Long.MAX_VALUE) {
      return ttlS;
    }
    return (int) Math.max(1, Math.min(ttlS, latestExpiryS - CLOCKS_S - seconds(nowMs)));
  }

  private int effective(int ttlS) {
    return forceDefault || ttlS == 0 ? defaultS : ttlS;
  }

  private long leftS(int ttl, long timeMs, long takenAtMs, long nowMs) {
    long since = align ? timeMs : takenAtMs;
    long age = nowMs - since;
    // The time of a point may be anything: nanoseconds, or the end of all longs.
    boolean overflow = ((nowMs ^ since) & (nowMs ^ age)) < 0;
    return ttl - (overflow ? (since < 0 ? Long.MAX_VALUE : Long.MIN_VALUE) / 2_000 : age / 1_000);
  }

  private static long seconds(long ms) {
    return Math.floorDiv(ms, 1_000L);
  }
}
