package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.policies.SpeculativeExecutionPolicy;
import org.junit.jupiter.api.Test;

/** The driver's own Cluster, as KairosDB builds it, unconnected. */
class SpareReadsTest {
  @Test
  void theDriverTakesThePolicyAfterItWasBuilt() {
    try (Cluster cluster = Cluster.builder().addContactPoint("127.0.0.1").build()) {
      SpareReads.install(cluster);
      SpeculativeExecutionPolicy policy =
          cluster.getConfiguration().getPolicies().getSpeculativeExecutionPolicy();
      assertInstanceOf(SpareReads.Policy.class, policy);
      SpareReads.install(cluster);
      assertSame(
          policy, cluster.getConfiguration().getPolicies().getSpeculativeExecutionPolicy());
    }
  }

  @Test
  void readsAreSentToTwoMoreAndBatchesToNone() {
    SpareReads.Policy policy = new SpareReads.Policy();
    var read = policy.newPlan("k", new SimpleStatement("SELECT 1"));
    assertEquals(400, read.nextExecution(null));
    assertEquals(400, read.nextExecution(null));
    assertEquals(-1, read.nextExecution(null));
    assertEquals(-1, policy.newPlan("k", new BatchStatement()).nextExecution(null));
  }
}
