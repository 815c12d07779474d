package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.extension.AnnotatedElementContext;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.io.TempDirFactory;

/**
 * A folder of which the kernel knows what the disk has of it: the build's, where temporary files
 * are in memory.
 */
final class OnDisk implements TempDirFactory {
  @Override
  public Path createTempDirectory(AnnotatedElementContext element, ExtensionContext extension)
      throws IOException {
    Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
    return Files.createTempDirectory(
        isOnDisk(temporary) ? temporary : Path.of("target").toAbsolutePath(), "on-disk-");
  }

  private static boolean isOnDisk(Path folder) throws IOException {
    return !Files.getFileStore(folder).type().equals("tmpfs");
  }

  /** Skips the test where the build is in memory, too. */
  static void assumed(Path folder) throws IOException {
    assumeTrue(isOnDisk(folder), "no disk, of which the kernel would tell, is below " + folder);
  }
}
