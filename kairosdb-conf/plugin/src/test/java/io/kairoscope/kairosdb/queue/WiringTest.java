package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.Session;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.Key;
import com.google.inject.Stage;
import com.google.inject.spi.LinkedKeyBinding;
import io.kairoscope.kairosdb.MetricsResource;
import io.kairoscope.kairosdb.StatusModule;
import java.io.IOException;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.CassandraModule;
import org.kairosdb.datastore.cassandra.ClusterConnection;

/** KairosDB's modules have all that the queue processor asks for. Nothing is started. */
class WiringTest {
  @Test
  void oneSettingPutsItInPlaceOfKairosDbsOwn() throws IOException {
    KairosRootConfig config =
        TestConfig.of(
            Map.of(
                QueueProcessor.QUEUE_PROCESSOR_CLASS, CoalescingQueueProcessor.class.getName()));
    Injector injector =
        Guice.createInjector(
            Stage.TOOL, new CoreModule(config), new CassandraModule(config), new StatusModule());
    assertEquals(
        CoalescingQueueProcessor.class,
        ((LinkedKeyBinding<?>) injector.getBinding(Key.get(QueueProcessor.class)))
            .getLinkedKey()
            .getTypeLiteral()
            .getRawType());
    injector.getBinding(CoalescingQueueProcessor.class);
    injector.getBinding(MetricsResource.class);
  }

  @Test
  void settingsHaveDefaults() throws IOException {
    QueueSettings defaults = QueueSettings.of(TestConfig.of(Map.of()));
    assertEquals(
        new QueueSettings(
            15_000,
            128L << 20,
            32_768,
            8,
            20L << 30,
            300L << 20,
            30_000,
            0,
            Long.MAX_VALUE,
            500,
            50_000,
            false),
        defaults);
    String prefix = "kairosdb.kairoscope.queue.";
    Map<String, ?> given = Map.of(prefix + "window_ms", 0, prefix + "keep_s", 0);
    QueueSettings other = QueueSettings.of(TestConfig.of(given));
    assertEquals(0, other.windowMs());
    assertEquals(0, other.keepMs());
    Map<String, ?> two = Map.of(prefix + "nodes", 2);
    assertTrue(QueueSettings.of(TestConfig.of(two)).others());
  }

  @Test
  void whatIsReadByReflectionIsThere() throws NoSuchFieldException {
    assertEquals(Session.class, ClusterConnection.class.getDeclaredField("m_session").getType());
  }
}
