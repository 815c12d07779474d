package io.kairoscope.kairosdb;

import java.lang.reflect.Field;

/**
 * Private fields of KairosDB that have no accessor. Its version is pinned, and a missing field is
 * an error here, not a wrong number.
 */
final class Fields {
  private Fields() {}

  /**
   * What a field has now.
   *
   * @param type the class that declares it
   */
  static <T> Object get(Class<T> type, T owner, String name) throws ReflectiveOperationException {
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    return field.get(owner);
  }
}
