package io.kairoscope.kairosdb.metrics;

import com.sun.management.UnixOperatingSystemMXBean;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.lang.management.MemoryUsage;
import java.util.List;
import java.util.function.ToLongFunction;

/** The process and its JVM, by the names that Prometheus' own Java client gives them. */
public final class JvmMetrics implements MetricSource {
  private static final double MS = 1e3;
  private static final double NS = 1e9;

  private final MemoryMXBean memory = ManagementFactory.getMemoryMXBean();
  private final List<GarbageCollectorMXBean> collectors =
      ManagementFactory.getGarbageCollectorMXBeans();
  private final List<BufferPoolMXBean> pools =
      ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class);

  @Override
  public void tell(Exposition to) {
    memory(to, "used", "Memory that is used.", MemoryUsage::getUsed);
    memory(to, "committed", "Memory that the JVM has from the system.", MemoryUsage::getCommitted);
    memory(to, "max", "Memory that the JVM may take; none is told where it is unbounded.",
        MemoryUsage::getMax);
    Exposition.Family buffers =
        to.gauge("jvm_buffer_pool_used_bytes", "Buffers outside the heap; mapped ones are files.");
    for (BufferPoolMXBean pool : pools) {
      buffers.value(pool.getMemoryUsed(), "pool", pool.getName());
    }
    Exposition.Family gc =
        to.summary("jvm_gc_collection_seconds", "Collections of garbage, and their time.");
    for (GarbageCollectorMXBean collector : collectors) {
      gc.values(
          Math.max(0, collector.getCollectionCount()),
          Math.max(0, collector.getCollectionTime()) / MS,
          "gc",
          collector.getName());
    }
    to.gauge("jvm_threads_current", "Threads.")
        .value(ManagementFactory.getThreadMXBean().getThreadCount());
    process(to);
  }

  private void memory(
      Exposition to, String what, String help, ToLongFunction<MemoryUsage> bytes) {
    Exposition.Family family = to.gauge("jvm_memory_" + what + "_bytes", help);
    long heap = bytes.applyAsLong(memory.getHeapMemoryUsage());
    long other = bytes.applyAsLong(memory.getNonHeapMemoryUsage());
    if (heap >= 0) {
      family.value(heap, "area", "heap");
    }
    if (other >= 0) {
      family.value(other, "area", "nonheap");
    }
  }

  private static void process(Exposition to) {
    to.gauge("process_start_time_seconds", "When the process began, since 1970.")
        .value(ManagementFactory.getRuntimeMXBean().getStartTime() / MS);
    if (ManagementFactory.getOperatingSystemMXBean() instanceof UnixOperatingSystemMXBean system) {
      to.counter("process_cpu_seconds_total", "CPU time, of user and system.")
          .value(Math.max(0, system.getProcessCpuTime()) / NS);
      to.gauge("process_open_fds", "Open file descriptors.")
          .value(system.getOpenFileDescriptorCount());
      to.gauge("process_max_fds", "File descriptors that may be open.")
          .value(system.getMaxFileDescriptorCount());
    }
  }
}
