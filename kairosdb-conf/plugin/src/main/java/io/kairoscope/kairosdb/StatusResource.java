package io.kairoscope.kairosdb;

import com.google.gson.Gson;
import com.typesafe.config.ConfigValue;
import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.QueueDepth;
import io.kairoscope.kairosdb.queue.QueueHealth;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.inject.Inject;
import javax.inject.Named;
import javax.ws.rs.GET;
import javax.ws.rs.Path;
import javax.ws.rs.Produces;
import javax.ws.rs.core.MediaType;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.queue.FileQueueProcessor;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.ClusterConnection;

/**
 * What KairosDB knows about itself and tells nobody: the settings it really runs with (defaults,
 * file, plugin files, system properties and environment merged by its own loader), whether it fell
 * back to read-only mode, and how many data points wait in its queue.
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
  public String queueDepth() {
    Map<String, Object> told = new TreeMap<>();
    QueueDepth depth =
        queue instanceof QueueDepth ours ? ours : new StockQueue((FileQueueProcessor) queue);
    told.put("waiting", depth.waiting());
    told.put("since_checkpoint", depth.sinceCheckpoint());
    if (queue instanceof PointQueue points) {
      QueueHealth health = points.health();
      told.put("oldest_ms", health.oldestMs());
      told.put("disk_bytes", health.diskBytes());
      told.put("dead_letters", health.deadLetters());
      told.put("unreadable", health.unreadable());
      told.put("healthy", health.healthy());
      told.put("troubles", health.troubles());
    }
    return new Gson().toJson(told);
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
    answer.put("read_only", Fields.get(ClusterConnection.class, cluster, "m_readonlyMode"));
    answer.put("settings", settings);
    return new Gson().toJson(answer);
  }
}
