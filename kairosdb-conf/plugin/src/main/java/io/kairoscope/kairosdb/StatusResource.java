package io.kairoscope.kairosdb;

import com.google.gson.Gson;
import com.typesafe.config.ConfigValue;
import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.QueueDepth;
import io.kairoscope.kairosdb.queue.QueueHealth;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.inject.Inject;
import javax.inject.Named;
import javax.ws.rs.GET;
import javax.ws.rs.Path;
import javax.ws.rs.Produces;
import javax.ws.rs.core.MediaType;
import org.kairosdb.bigqueue.IBigArray;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.ClusterConnection;

/**
 * What KairosDB knows about itself and tells nobody: the settings it really runs with (defaults,
 * file, plugin files, system properties and environment merged by its own loader), whether it fell
 * back to read-only mode, and how many data points wait in its queue.
 *
 * <p>The read position of KairosDB's own queue and the read-only flag are private fields without an
 * accessor; they are read by reflection. The KairosDB version is pinned, and a missing field is an
 * error here, not a wrong number.
 */
@Path("/api/v1/kairoscope")
public class StatusResource {
  // Parts of the keys of secrets; `kairoscope.hocon` has the same list.
  private static final Set<String> SECRET =
      Set.of("password", "secret", "credential", "token", "oauth");

  private final KairosRootConfig config;
  private final QueueProcessor queue;
  private final ClusterConnection cluster;

  @Inject
  public StatusResource(
      KairosRootConfig config,
      QueueProcessor queue,
      @Named("write_cluster") ClusterConnection cluster) {
    this.config = config;
    this.queue = queue;
    this.cluster = cluster;
  }

  /**
   * Depths in data points, of our queue processor or of KairosDB's, and how ours is. Cheap: a few
   * reads, none of the store.
   */
  @GET
  @Path("/queue")
  @Produces(MediaType.APPLICATION_JSON)
  public String queueDepth() throws ReflectiveOperationException {
    Map<String, Object> depth = new TreeMap<>();
    if (queue instanceof QueueDepth ours) {
      depth.put("waiting", ours.waiting());
      depth.put("since_checkpoint", ours.sinceCheckpoint());
      if (queue instanceof PointQueue points) {
        QueueHealth health = points.health();
        depth.put("oldest_ms", health.oldestMs());
        depth.put("disk_bytes", health.diskBytes());
        depth.put("dead_letters", health.deadLetters());
        depth.put("unreadable", health.unreadable());
        depth.put("healthy", health.healthy());
        depth.put("troubles", health.troubles());
      }
      return new Gson().toJson(depth);
    }
    IBigArray file = (IBigArray) field(queue, "m_bigArray");
    long head = file.getHeadIndex();
    // Not yet handed to a batch; what is in flight to the store has left this count.
    depth.put("waiting", head - (long) field(queue, "m_nextIndex"));
    // What a restart would send again: the file's tail moves at checkpoints only.
    depth.put("since_checkpoint", head - file.getTailIndex());
    return new Gson().toJson(depth);
  }

  /** The effective settings as flat, dotted keys (secrets left out), and the read-only flag. */
  @GET
  @Path("/settings")
  @Produces(MediaType.APPLICATION_JSON)
  public String settings() throws ReflectiveOperationException {
    Map<String, Object> settings = new TreeMap<>();
    for (Map.Entry<String, ConfigValue> entry : config.getRawConfig().entrySet()) {
      String key = entry.getKey();
      if (key.startsWith("kairosdb.") && SECRET.stream().noneMatch(key::contains)) {
        settings.put(key, entry.getValue().unwrapped());
      }
    }
    Map<String, Object> answer = new TreeMap<>();
    answer.put("pid", ProcessHandle.current().pid());
    answer.put("read_only", field(cluster, "m_readonlyMode"));
    answer.put("settings", settings);
    return new Gson().toJson(answer);
  }

  private static Object field(Object owner, String name) throws ReflectiveOperationException {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(owner);
  }
}
