package io.kairoscope.kairosdb.queue;

import org.kairosdb.core.KairosRootConfig;

/**
 * The settings below {@code kairosdb.kairoscope.queue}, and their defaults.
 *
 * @param windowMs how long the oldest point of a series waits for others at most; 0 is not at all
 * @param memoryBytes heap for points that are not yet stored
 * @param batchBytes of a batch, as the store counts them, from above
 * @param inFlightPerHost batches at a time to each storage node
 */
record QueueSettings(long windowMs, long memoryBytes, int batchBytes, int inFlightPerHost) {
  private static final String PREFIX = "kairosdb.kairoscope.queue.";
  private static final long WINDOW_MS = 15_000;
  private static final long MEMORY_MB = 128;
  // Cassandra refuses batches of 50 KiB unless told otherwise.
  private static final int BATCH_BYTES = 32 << 10;
  private static final int IN_FLIGHT = 8;

  static QueueSettings of(KairosRootConfig config) {
    return new QueueSettings(
        config.getLong(PREFIX + "window_ms", WINDOW_MS),
        config.getLong(PREFIX + "memory_mb", MEMORY_MB) << 20,
        config.getInt(PREFIX + "batch_bytes", BATCH_BYTES),
        config.getInt(PREFIX + "in_flight_per_host", IN_FLIGHT));
  }
}
