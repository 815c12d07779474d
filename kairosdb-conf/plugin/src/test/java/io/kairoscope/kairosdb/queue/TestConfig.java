package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosConfig.ConfigFormat;
import org.kairosdb.core.KairosRootConfig;

/** KairosDB's own configuration with some settings laid over it, as its main class makes it. */
public final class TestConfig {
  private TestConfig() {}

  /** The configuration with these over it. */
  public static KairosRootConfig of(Map<String, ?> settings) throws IOException {
    KairosRootConfig config = new KairosRootConfig();
    config.load(CoreModule.class.getResourceAsStream("/kairosdb.conf"), ConfigFormat.HOCON);
    Map<String, Object> all = new HashMap<>(settings);
    all.put("kairosdb.server.guid", "any");
    // KairosDB makes it, by default below /tmp.
    all.put("kairosdb.query_cache.cache_dir", "target/query-cache");
    config.load(all);
    config.resolve();
    return config;
  }
}
