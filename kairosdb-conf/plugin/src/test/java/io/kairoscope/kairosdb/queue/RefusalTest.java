package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.EndPoint;
import com.datastax.driver.core.WriteType;
import com.datastax.driver.core.exceptions.DriverException;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.NoHostAvailableException;
import com.datastax.driver.core.exceptions.OperationTimedOutException;
import com.datastax.driver.core.exceptions.OverloadedException;
import com.datastax.driver.core.exceptions.ServerError;
import com.datastax.driver.core.exceptions.UnauthorizedException;
import com.datastax.driver.core.exceptions.UnavailableException;
import com.datastax.driver.core.exceptions.WriteFailureException;
import com.datastax.driver.core.exceptions.WriteTimeoutException;
import java.net.InetSocketAddress;
import java.nio.BufferOverflowException;
import java.util.Map;
import org.junit.jupiter.api.Test;

class RefusalTest {
  private static final ConsistencyLevel QUORUM = ConsistencyLevel.QUORUM;
  private static final WriteTimeoutException TIMEOUT =
      new WriteTimeoutException(QUORUM, WriteType.UNLOGGED_BATCH, 1, 2);

  private static void is(Refusal expected, Throwable... errors) {
    for (Throwable error : errors) {
      assertEquals(expected, Refusal.of(error), error.toString());
    }
  }

  @Test
  void aPointsFaultIsToldFromTheStores() {
    is(Refusal.TOO_LARGE, new InvalidQueryException("Batch too large"));
    is(
        Refusal.CONTENT,
        new InvalidQueryException("ttl is too large. requested (700000000) maximum (630720000)"),
        new InvalidQueryException("'Keyspace x does not exist' is not a number"),
        new InvalidQueryException("Key length of 70000 is longer than maximum of 65535"),
        new IllegalArgumentException("no such codec"),
        new BufferOverflowException());
    is(
        Refusal.UNSURE,
        new ServerError(null, "java.lang.AssertionError"),
        new WriteFailureException(QUORUM, WriteType.UNLOGGED_BATCH, 1, 2, 1, Map.of()),
        new IllegalStateException(),
        new AssertionError());
    is(
        Refusal.STORE,
        new UnavailableException(QUORUM, 2, 1),
        TIMEOUT,
        new OverloadedException(null, "Batch too large"),
        new NoHostAvailableException(Map.of()),
        new OperationTimedOutException(null));
    is(
        Refusal.TROUBLE,
        new InvalidQueryException("unconfigured table data_points"),
        new InvalidQueryException("Keyspace 'kairosdb' does not exist"),
        new UnauthorizedException(null, "User has no MODIFY permission"));
    is(
        Refusal.OURS,
        new NoSuchMethodError("of another driver"),
        new InternalError("a page that cannot be read"));
  }

  private static NoHostAvailableException notPrepared(String why) {
    EndPoint node = () -> new InetSocketAddress("127.0.0.1", 9042);
    return new NoHostAvailableException(
        Map.of(node, new DriverException("Error preparing query, got ERROR " + why)));
  }

  @Test
  void aStatementThatIsRefusedIsNotAStoreThatIsAway() {
    is(
        Refusal.TROUBLE,
        notPrepared("INVALID: Undefined column name column1 in table kairosdb.data_points"),
        notPrepared("INVALID: table string_index does not exist"),
        notPrepared("UNAUTHORIZED: User kairosdb has no MODIFY permission"));
    is(
        Refusal.STORE,
        notPrepared("OVERLOADED: Request is too old"),
        notPrepared("SERVER_ERROR: java.lang.RuntimeException"));
  }

  @Test
  void aNodesAnswerIsToldFromTheDriversWord() {
    assertTrue(Refusal.answered(null));
    assertTrue(Refusal.answered(TIMEOUT));
    assertFalse(Refusal.answered(new OperationTimedOutException(null)));
    assertFalse(Refusal.answered(new NoHostAvailableException(Map.of())));
    assertFalse(Refusal.answered(new IllegalStateException()));
  }
}
