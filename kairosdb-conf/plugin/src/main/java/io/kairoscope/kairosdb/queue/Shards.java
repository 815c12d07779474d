package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.Host;
import java.lang.reflect.Method;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which shard of a ScyllaDB host has a token; always 0 with Cassandra, or with the driver for it.
 *
 * <p>Only ScyllaDB's driver has {@code Host.getShardingInfo()}, and the plugin runs with either
 * driver, hence the reflection on a public method.
 */
final class Shards {
  private static final Logger logger = LoggerFactory.getLogger(Shards.class);
  // ScyllaDB's murmur3_partitioner_ignore_msb_bits, which nobody changes.
  private static final int IGNORED_BITS = 12;

  private final Method shardingInfo = shardingInfo();

  private static Method shardingInfo() {
    try {
      return Host.class.getMethod("getShardingInfo");
    } catch (NoSuchMethodException otherDriver) {
      return null;
    }
  }

  int shard(Host host, long token) {
    if (shardingInfo == null) {
      return 0;
    }
    try {
      Object info = shardingInfo.invoke(host);
      // Not known before the first connection, and never of a Cassandra host.
      if (info == null) {
        return 0;
      }
      return shard((int) info.getClass().getMethod("getShardsCount").invoke(info), token);
    } catch (ReflectiveOperationException error) {
      // Batches are written all the same, to more shards than need be.
      logger.debug("Shards of {} are not known", host, error);
      return 0;
    }
  }

  /** ScyllaDB's arithmetic: the share of the ring, below the ignored bits, times the shards. */
  static int shard(int shards, long token) {
    long biased = (token + Long.MIN_VALUE) << IGNORED_BITS;
    long low = ((biased & 0xffffffffL) * shards) >>> 32;
    return (int) (((biased >>> 32) * shards + low) >>> 32);
  }
}
