package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.Host;
import com.datastax.driver.core.Host.StateListener;
import com.datastax.driver.core.Session;
import java.lang.reflect.Field;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hears from the driver which storage nodes go and come. A node that went may have lost what it
 * acknowledged last, so that is written again: at once, to those that are left, and once more when it
 * is back.
 */
final class NodeWatch implements StateListener {
  private static final Logger logger = LoggerFactory.getLogger(NodeWatch.class);

  private final Runnable rewrite;

  NodeWatch(Runnable rewrite) {
    this.rewrite = rewrite;
  }

  /**
   * Watches the nodes of a connection. KairosDB keeps its session to itself, so it is read by
   * reflection: its version is pinned, and a missing field is an error.
   *
   * @param rewrite is run when a node went or came, by the driver's threads
   */
  static void of(ClusterConnection connection, Runnable rewrite) {
    try {
      Field field = ClusterConnection.class.getDeclaredField("m_session");
      field.setAccessible(true);
      Session session = (Session) field.get(connection);
      // Without a connection, in tests, there is nothing to hear.
      if (session != null) {
        session.getCluster().register(new NodeWatch(rewrite));
      }
    } catch (ReflectiveOperationException otherVersion) {
      throw new IllegalStateException("another KairosDB than this is made for", otherVersion);
    }
  }

  private void changed(Host host, String what) {
    logger.info("Storage node {} {}: what was stored lately is written again", host, what);
    rewrite.run();
  }

  @Override
  public void onAdd(Host host) {}

  @Override
  public void onUp(Host host) {
    changed(host, "is back");
  }

  @Override
  public void onDown(Host host) {
    changed(host, "is gone");
  }

  @Override
  public void onRemove(Host host) {}

  @Override
  public void onRegister(Cluster cluster) {}

  @Override
  public void onUnregister(Cluster cluster) {}
}
