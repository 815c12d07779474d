package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.CodecRegistry;
import com.datastax.driver.core.DataType;
import com.datastax.driver.core.FakePrepared;
import com.datastax.driver.core.Host;
import com.datastax.driver.core.ProtocolVersion;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.ResultSetFuture;
import com.datastax.driver.core.Statement;
import com.datastax.driver.core.policies.LoadBalancingPolicy;
import com.google.common.collect.HashMultimap;
import com.google.common.util.concurrent.SettableFuture;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.List;
import org.kairosdb.core.datastore.TimeUnit;
import org.kairosdb.datastore.cassandra.CassandraClient;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.datastore.cassandra.RowSpec;

/**
 * KairosDB's connection with its statements, but without a server: it collects what is sent, and
 * answers when the test says so, or at once.
 */
final class FakeCluster extends ClusterConnection {
  final List<BatchStatement> sent = Collections.synchronizedList(new ArrayList<>());
  final List<SettableFuture<ResultSet>> answers = new ArrayList<>();
  final List<Host> hosts = new ArrayList<>();
  boolean answersAtOnce;
  boolean keeps = true;
  volatile Runnable beforeEach = () -> {};

  private final RowSpec spec =
      new RowSpec(RowSpec.DEFAULT_ROW_WIDTH, TimeUnit.MILLISECONDS, false);

  FakeCluster(CassandraConfiguration configuration) {
    super(
        configuration,
        proxy(CassandraClient.class, (self, method, args) -> configuration.getWriteCluster()),
        EnumSet.noneOf(Type.class),
        HashMultimap.create());
    DataType tags = DataType.frozenMap(DataType.text(), DataType.text());
    psDataPointsInsert =
        FakePrepared.of(
            DataType.blob(),
            DataType.blob(),
            DataType.blob(),
            DataType.cint(),
            DataType.bigint());
    psRowKeyInsert =
        FakePrepared.of(
            DataType.text(),
            DataType.text(),
            DataType.timestamp(),
            DataType.text(),
            tags,
            DataType.cint());
    psRowKeyTimeInsert =
        FakePrepared.of(
            DataType.text(), DataType.text(), DataType.timestamp(), DataType.cint());
    psStringIndexInsert = FakePrepared.of(DataType.blob(), DataType.text());
  }

  @Override
  public RowSpec getRowSpec() {
    return spec;
  }

  @Override
  public String getKeyspace() {
    return "kairosdb";
  }

  @Override
  public LoadBalancingPolicy getLoadBalancingPolicy() {
    return proxy(LoadBalancingPolicy.class, (self, method, args) -> plan((Statement) args[1]));
  }

  // By the key, as a ring has it: each key has another first one.
  private Iterator<Host> plan(Statement statement) {
    List<Host> plan = new ArrayList<>(hosts);
    if (!plan.isEmpty()) {
      ByteBuffer key = statement.getRoutingKey(ProtocolVersion.V4, CodecRegistry.DEFAULT_INSTANCE);
      Collections.rotate(plan, Math.floorMod(key.hashCode(), plan.size()));
    }
    return plan.iterator();
  }

  @Override
  public ResultSetFuture executeAsync(Statement statement) {
    beforeEach.run();
    if (keeps) {
      sent.add((BatchStatement) statement);
    }
    SettableFuture<ResultSet> answer = SettableFuture.create();
    if (answersAtOnce) {
      answer.set(null);
    } else {
      answers.add(answer);
    }
    return proxy(
        ResultSetFuture.class,
        (self, method, args) -> {
          try {
            return method.invoke(answer, args);
          } catch (InvocationTargetException error) {
            throw error.getCause();
          }
        });
  }

  private static <T> T proxy(Class<T> type, InvocationHandler handler) {
    ClassLoader loader = FakeCluster.class.getClassLoader();
    return type.cast(Proxy.newProxyInstance(loader, new Class<?>[] {type}, handler));
  }
}
