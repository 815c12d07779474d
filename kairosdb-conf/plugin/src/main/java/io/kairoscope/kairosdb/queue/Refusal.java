package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.exceptions.AuthenticationException;
import com.datastax.driver.core.exceptions.BusyConnectionException;
import com.datastax.driver.core.exceptions.BusyPoolException;
import com.datastax.driver.core.exceptions.CodecNotFoundException;
import com.datastax.driver.core.exceptions.ConnectionException;
import com.datastax.driver.core.exceptions.CoordinatorException;
import com.datastax.driver.core.exceptions.CrcMismatchException;
import com.datastax.driver.core.exceptions.FrameTooLongException;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.InvalidTypeException;
import com.datastax.driver.core.exceptions.NoHostAvailableException;
import com.datastax.driver.core.exceptions.OperationTimedOutException;
import com.datastax.driver.core.exceptions.OverloadedException;
import com.datastax.driver.core.exceptions.QueryExecutionException;
import com.datastax.driver.core.exceptions.SyntaxError;
import com.datastax.driver.core.exceptions.UnauthorizedException;
import com.datastax.driver.core.exceptions.UnpreparedException;
import com.datastax.driver.core.exceptions.WriteFailureException;
import com.datastax.driver.core.exceptions.WriteTimeoutException;
import java.nio.BufferOverflowException;
import java.nio.BufferUnderflowException;
import java.util.Locale;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;

/** What a failed write may come from, and so what is done about it. */
enum Refusal {
  /** Size alone: less at once will do. */
  TOO_LARGE,

  /** Something in it, by what the store says. */
  CONTENT,

  /** Something in it, or the store: a few attempts show. */
  UNSURE,

  /** The store of the moment, whatever is written: it is tried again until it is written. */
  STORE,

  /** As {@link #STORE}, but it takes somebody to mend it: a table, a permission. */
  TROUBLE,

  /** This program or its machine: what is not touched by it is written, and nothing given up. */
  OURS;

  // What Cassandra and ScyllaDB say, with nothing else to tell it by.
  private static final String BATCH_TOO_LARGE = "batch too large";
  // The driver's words when a node has forgotten a statement, as it does when its table changes, and
  // then refuses it: it goes on to the next node, and of the last one says that none is available.
  private static final Pattern NOT_PREPARED =
      Pattern.compile(
          "Error preparing query, got ERROR (INVALID|SYNTAX_ERROR|UNAUTHORIZED|CONFIG_ERROR): .*",
          Pattern.DOTALL);

  static Refusal of(Throwable error) {
    if (error instanceof FrameTooLongException) {
      return TOO_LARGE;
    }
    if (error instanceof UnauthorizedException || error instanceof AuthenticationException) {
      return TROUBLE;
    }
    if (error instanceof NoHostAvailableException nobody && isNotPrepared(nobody)) {
      return TROUBLE;
    }
    if (error instanceof InvalidQueryException || error instanceof SyntaxError) {
      return ofMessage(String.valueOf(error.getMessage()).toLowerCase(Locale.ROOT));
    }
    if (error instanceof WriteFailureException) {
      return UNSURE;
    }
    if (error instanceof QueryExecutionException
        || error instanceof ConnectionException
        || error instanceof NoHostAvailableException
        || error instanceof BusyPoolException
        || error instanceof BusyConnectionException
        || error instanceof UnpreparedException
        || error instanceof CrcMismatchException) {
      return STORE;
    }
    if (error instanceof IllegalArgumentException
        || error instanceof CodecNotFoundException
        || error instanceof InvalidTypeException
        || error instanceof BufferOverflowException
        || error instanceof BufferUnderflowException) {
      return CONTENT;
    }
    // Classes that do not fit each other, memory, a page that cannot be read: no point's fault.
    if (error instanceof LinkageError || error instanceof VirtualMachineError) {
      return OURS;
    }
    return UNSURE;
  }

  /** Without any point in it, so that no point can be at fault. */
  private static boolean isNotPrepared(NoHostAvailableException nobody) {
    for (Throwable error : nobody.getErrors().values()) {
      if (NOT_PREPARED.matcher(String.valueOf(error.getMessage())).matches()) {
        return true;
      }
    }
    return false;
  }

  private static Refusal ofMessage(String message) {
    if (message.contains(BATCH_TOO_LARGE)) {
      return TOO_LARGE;
    }
    // At its beginning only: what comes later may be out of a point.
    boolean schema =
        message.startsWith("unconfigured ")
            || message.startsWith("no keyspace has been specified")
            || message.matches("keyspace \\S+ does not exist.*");
    return schema ? TROUBLE : CONTENT;
  }

  /** Whether it was waited for in vain: it may be carried out yet. */
  static boolean late(Throwable error) {
    return error instanceof OperationTimedOutException
        || error instanceof WriteTimeoutException
        || error instanceof OverloadedException;
  }

  /** Whether the node itself said so, and not the driver about it. */
  static boolean answered(Throwable error) {
    return error == null
        || error instanceof CoordinatorException
            && !(error instanceof ConnectionException)
            && !(error instanceof BusyPoolException)
            && !(error instanceof BusyConnectionException);
  }

  /** What is in the wrappings of futures. */
  static Throwable cause(Throwable error) {
    Throwable cause = error;
    while ((cause instanceof CompletionException || cause instanceof ExecutionException)
        && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause;
  }
}
