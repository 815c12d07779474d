package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** ScyllaDB's documented formula, in whole numbers without an end. */
class ShardsTest {
  @Test
  void agreesWithTheFormula() {
    Random random = new Random(1);
    BigInteger ring = BigInteger.ONE.shiftLeft(64);
    for (int i = 0; i < 10_000; i++) {
      long token = random.nextLong();
      int shards = 1 + random.nextInt(200);
      BigInteger biased = BigInteger.valueOf(token).add(BigInteger.ONE.shiftLeft(63));
      BigInteger kept = biased.shiftLeft(12).mod(ring);
      int expected = kept.multiply(BigInteger.valueOf(shards)).divide(ring).intValueExact();
      assertEquals(expected, Shards.shard(shards, token));
      assertTrue(expected < shards);
    }
  }
}
