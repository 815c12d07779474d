package io.kairoscope.kairosdb.queue;

import com.google.common.collect.HashMultimap;
import java.lang.reflect.Proxy;
import java.util.EnumSet;
import org.kairosdb.datastore.cassandra.CassandraClient;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.ClusterConnection;

/** KairosDB's connection without a server, for tests outside of this package. */
public final class AnyCluster {
  private AnyCluster() {}

  /** One that answers at once and keeps nothing of what it is sent. */
  public static ClusterConnection forgetful(CassandraConfiguration configuration) {
    FakeCluster cluster = new FakeCluster(configuration);
    cluster.answersAtOnce = true;
    cluster.keeps = false;
    return cluster;
  }

  /** Connected: its statements are answered at once; else as with start_async, before it is. */
  public static ClusterConnection of(CassandraConfiguration configuration, boolean connected) {
    if (connected) {
      FakeCluster cluster = new FakeCluster(configuration);
      cluster.answersAtOnce = true;
      return cluster;
    }
    CassandraClient client =
        (CassandraClient)
            Proxy.newProxyInstance(
                AnyCluster.class.getClassLoader(),
                new Class<?>[] {CassandraClient.class},
                (proxy, method, arguments) ->
                    method.getName().equals("getClusterConfiguration")
                        ? configuration.getWriteCluster()
                        : null);
    return new ClusterConnection(
        configuration, client, EnumSet.of(ClusterConnection.Type.WRITE), HashMultimap.create());
  }
}
