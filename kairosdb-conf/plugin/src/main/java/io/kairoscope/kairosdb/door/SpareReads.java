package io.kairoscope.kairosdb.door;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.Host;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.Statement;
import com.datastax.driver.core.policies.Policies;
import com.datastax.driver.core.policies.SpeculativeExecutionPolicy;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends a read to a second storage node when the first has not answered for a while.
 *
 * <p>A node that is frozen, or behind a dead link, is not down to the driver for half a minute or
 * more; whatever is sent to it is waited for for 12 s (the driver's read timeout; KairosDB has no
 * setting for it), and a query of KairosDB is four reads, one after the other. Reads that are asked
 * twice cost the store twice, so this is for those that take unusually long only.
 *
 * <p>The driver has all that is needed, but KairosDB builds its Cluster without, in a class of a
 * private child injector. The policy is read anew for each request ({@code RequestHandler}), so it
 * is put into the place of the one that does nothing by reflection: the one field has no setter.
 * The driver is pinned; with another one, a field that is missing is logged, and reads are as before.
 */
final class SpareReads {
  private static final Logger logger = LoggerFactory.getLogger(SpareReads.class);
  // Four of these and the reads themselves are within the health check's two seconds.
  private static final long AFTER_MS = 400;
  private static final int SPARES = 2;

  private SpareReads() {}

  /** Whether the connection was there to be prepared; with start_async it may come later. */
  static boolean prepare(ClusterConnection connection) {
    Session session = connection.getSession();
    if (session == null || connection.getRowSpec() == null) {
      return false;
    }
    for (PreparedStatement statement : idempotent(connection)) {
      statement.setIdempotent(true);
    }
    install(session.getCluster());
    return true;
  }

  /**
   * What may be asked twice: the driver takes no statement for it unless it is told. All selects,
   * and the deletes, which are made with one time of the client however often they are sent.
   */
  private static List<PreparedStatement> idempotent(ClusterConnection of) {
    List<PreparedStatement> all = new ArrayList<>();
    for (PreparedStatement statement :
        new PreparedStatement[] {
          of.psDataPointsQueryAsc,
          of.psDataPointsQueryDesc,
          of.psDataPointsQueryAscLimit,
          of.psDataPointsQueryDescLimit,
          of.psRowKeyIndexQuery,
          of.psRowKeyQuery,
          of.psTagIndexedRowKeyQuery,
          of.psRowKeyTimeQuery,
          of.psStringIndexQuery,
          of.psStringIndexPrefixQuery,
          of.psServiceIndexGet,
          of.psServiceIndexListKeys,
          of.psServiceIndexListKeysPrefix,
          of.psServiceIndexListServiceKeys,
          of.psServiceIndexModificationTime,
          of.psServiceIndexGetEntries,
          of.psDataPointsDelete,
          of.psDataPointsDeleteRow,
          of.psDataPointsDeleteRange,
          of.psRowKeyDelete,
          of.psRowKeyTimeDelete,
          of.psTagIndexedRowKeyDelete,
          of.psRowKeyIndexDelete,
          of.psRowKeyIndexDeleteRow,
          of.psStringIndexDelete,
          of.psServiceIndexDeleteKey,
        }) {
      // Not each cluster has all of them: see ClusterConnection.tryToConnect.
      if (statement != null) {
        all.add(statement);
      }
    }
    return all;
  }

  static void install(Cluster cluster) {
    Policies policies = cluster.getConfiguration().getPolicies();
    if (policies.getSpeculativeExecutionPolicy() instanceof Policy) {
      return;
    }
    try {
      Field field = Policies.class.getDeclaredField("speculativeExecutionPolicy");
      field.setAccessible(true);
      field.set(policies, new Policy());
      logger.info("Reads of more than {} ms are sent to another storage node too", AFTER_MS);
    } catch (ReflectiveOperationException | RuntimeException error) {
      logger.error("Reads will wait for a storage node that is frozen", error);
    }
  }

  /** Two more executions, each a while after the one before; none of batches: those are writes. */
  static final class Policy implements SpeculativeExecutionPolicy {
    @Override
    public SpeculativeExecutionPlan newPlan(String keyspace, Statement statement) {
      return new SpeculativeExecutionPlan() {
        private int left = statement instanceof BatchStatement ? 0 : SPARES;

        @Override
        public long nextExecution(Host lastQueried) {
          return left-- > 0 ? AFTER_MS : -1;
        }
      };
    }

    @Override
    public void init(Cluster cluster) {}

    @Override
    public void close() {}
  }
}
