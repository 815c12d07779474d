package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.Host;
import com.datastax.driver.core.Metadata;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which nodes have a partition, those that are down among them, by the driver's map of the ring.
 *
 * <p>ScyllaDB's driver wants a partitioner as well, null for the cluster's own, and the plugin runs
 * with either driver, hence the reflection on a public method.
 */
final class Replicas {
  private static final Logger logger = LoggerFactory.getLogger(Replicas.class);
  private static final String NAME = "getReplicas";

  private final Method replicas = replicas();

  private static Method replicas() {
    try {
      return Metadata.class.getMethod(NAME, String.class, ByteBuffer.class);
    } catch (NoSuchMethodException otherDriver) {
      for (Method method : Metadata.class.getMethods()) {
        Class<?>[] wants = method.getParameterTypes();
        if (method.getName().equals(NAME) && wants.length == 3 && wants[2] == ByteBuffer.class) {
          return method;
        }
      }
      return null;
    }
  }

  /** Of a partition's key; empty if it is not known, as without the schema. */
  Set<Host> of(Metadata metadata, String keyspace, ByteBuffer key) {
    if (replicas == null) {
      return Set.of();
    }
    String quoted = Metadata.quote(keyspace);
    try {
      Object found =
          replicas.getParameterCount() == 2
              ? replicas.invoke(metadata, quoted, key.duplicate())
              : replicas.invoke(metadata, quoted, null, key.duplicate());
      @SuppressWarnings("unchecked")
      Set<Host> hosts = (Set<Host>) found;
      return hosts;
    } catch (ReflectiveOperationException error) {
      // Then each is taken for the only one there.
      logger.debug("The nodes of a partition are not known", error);
      return Set.of();
    }
  }
}
