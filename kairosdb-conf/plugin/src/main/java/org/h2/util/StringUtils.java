package org.h2.util;

/**
 * The one method that KairosDB calls of H2 where its datastore is another (Main,
 * MetadataResource, RollUpTasksStoreImpl), so that a whole database need not be there.
 */
public final class StringUtils {
  private StringUtils() {}

  public static boolean isNullOrEmpty(String text) {
    return text == null || text.isEmpty();
  }
}
