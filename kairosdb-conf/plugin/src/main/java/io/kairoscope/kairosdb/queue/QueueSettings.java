package io.kairoscope.kairosdb.queue;

import org.kairosdb.core.KairosRootConfig;

/**
 * The settings below {@code kairosdb.kairoscope.queue}, and their defaults.
 *
 * @param windowMs how long the oldest point of a series waits for others at most; 0 is not at all
 * @param memoryBytes heap for points that are not yet stored
 * @param batchBytes of a batch, as the store counts them, from above
 * @param inFlightPerHost batches at a time to each storage node
 * @param diskBytes of the queue's files at most; beyond, points are not taken
 * @param diskFreeBytes what is left of the disk; if less would be, points are not taken
 * @param keepMs how long the file keeps what is stored, to write it again when a storage node goes
 * @param syncMs from one bringing of the file to the disk to the next, for which acknowledgements
 *     wait; 0 is not at all
 * @param latestExpiryS the last second since 1970 at which the store lets a point expire
 * @param newSeriesPerS new series that are taken a second, beside as many as the cache of row keys
 *     holds at once
 * @param knownSeries entries of that cache
 * @param others whether other KairosDBs write to this store
 */
record QueueSettings(
    long windowMs,
    long memoryBytes,
    int batchBytes,
    int inFlightPerHost,
    long diskBytes,
    long diskFreeBytes,
    long keepMs,
    long syncMs,
    long latestExpiryS,
    int newSeriesPerS,
    int knownSeries,
    boolean others) {
  private static final String PREFIX = "kairosdb.kairoscope.queue.";
  private static final long WINDOW_MS = 15_000;
  private static final long MEMORY_MB = 128;
  // Cassandra refuses batches of 50 KiB unless told otherwise.
  private static final int BATCH_BYTES = 32 << 10;
  private static final int IN_FLIGHT = 8;
  private static final long DISK_MB = 20 << 10;
  private static final long DISK_FREE_MB = 300;
  // The period of the store's commit log, and until its end is noticed.
  private static final long KEEP_S = 30;
  // A tenth of what two cores sustain, if a new series costs what ten points do.
  private static final int NEW_SERIES_PER_S = 500;
  // KairosDB's default.
  private static final int KNOWN_SERIES = 50_000;

  static QueueSettings of(KairosRootConfig config) {
    return new QueueSettings(
        config.getLong(PREFIX + "window_ms", WINDOW_MS),
        config.getLong(PREFIX + "memory_mb", MEMORY_MB) << 20,
        config.getInt(PREFIX + "batch_bytes", BATCH_BYTES),
        config.getInt(PREFIX + "in_flight_per_host", IN_FLIGHT),
        config.getLong(PREFIX + "disk_mb", DISK_MB) << 20,
        config.getLong(PREFIX + "disk_free_mb", DISK_FREE_MB) << 20,
        config.getLong(PREFIX + "keep_s", KEEP_S) * 1_000,
        config.getLong(PREFIX + "sync_ms", 0L),
        config.getLong(PREFIX + "latest_expiry_s", Long.MAX_VALUE),
        config.getInt(PREFIX + "new_series_per_s", NEW_SERIES_PER_S),
        config.getInt("kairosdb.datastore.cassandra.row_key_cache_size", KNOWN_SERIES),
        config.getInt(PREFIX + "nodes", 1) > 1);
  }

  QueueFile.Limits limits() {
    return new QueueFile.Limits(diskBytes, diskFreeBytes);
  }

  /** The share of the heap for points on their way to the store. */
  long flyingBytes() {
    return memoryBytes / 4;
  }

  /** The share for those that wait. */
  long waitingBytes() {
    return memoryBytes - flyingBytes();
  }
}
