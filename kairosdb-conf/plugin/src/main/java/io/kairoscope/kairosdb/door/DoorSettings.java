package io.kairoscope.kairosdb.door;

import javax.inject.Inject;
import org.kairosdb.core.KairosRootConfig;

/** The settings below {@code kairosdb.kairoscope.door}, and their defaults. */
public final class DoorSettings {
  static final String PREFIX = "kairosdb.kairoscope.door.";
  // A loader's request of 1,000 points has 0.1 MB. KairosDB's own limit is the heap.
  private static final int MAX_REQUEST_MB = 32;
  // Each record of the queue's file has metric and tags, which a body may have once for a million
  // points. The shortest, some 20 bytes of JSON, are records of 80 to 120: a factor of 4 to 6, and
  // of 16 with 300 bytes of metric and tags. Tags of 60 KB would make it 3,000.
  private static final int RECORD_BYTES_PER_BYTE = 16;
  // A release that need not wait for others is stored within tens of ms; a person waits 2 s.
  private static final long FLUSH_ON_QUERY_MS = 2_000;
  // Readings of other nodes' deletes; a minute is what a slow store may take.
  private static final long FLUSH_ON_DELETE_MS = 30_000;

  private final long maxRequestBytes;
  private final long flushOnQueryMs;
  private final long flushOnDeleteMs;
  private final boolean ingest;

  @Inject
  public DoorSettings(KairosRootConfig config) {
    maxRequestBytes = (long) config.getInt(PREFIX + "max_request_mb", MAX_REQUEST_MB) << 20;
    flushOnQueryMs = config.getLong(PREFIX + "flush_on_query_ms", FLUSH_ON_QUERY_MS);
    flushOnDeleteMs = config.getLong(PREFIX + "flush_on_delete_ms", FLUSH_ON_DELETE_MS);
    String type = "kairosdb.server.type";
    String types = config.hasPath(type) ? config.getString(type) : "ALL";
    ingest = types.equals("ALL") || types.contains("INGEST");
  }

  /** Bytes of one request's body, as sent and, if that is more, unpacked. */
  long maxRequestBytes() {
    return maxRequestBytes;
  }

  /** Bytes that the points of one request may have in the queue's file. */
  long maxRecordBytes() {
    return RECORD_BYTES_PER_BYTE * maxRequestBytes;
  }

  /** How long a query waits for what its metric has in the queue; 0 is not at all. */
  long flushOnQueryMs() {
    return flushOnQueryMs;
  }

  /** How long a delete waits for what its metric has in the queue before it is refused. */
  long flushOnDeleteMs() {
    return flushOnDeleteMs;
  }

  /** Whether this KairosDB takes points at all ({@code kairosdb.server.type}). */
  boolean ingest() {
    return ingest;
  }
}
