package io.kairoscope.kairosdb.door;

import java.util.ArrayList;
import java.util.List;

/** What was wrong with a request: the first hundred in words, the others counted. */
final class Errors {
  private static final int NAMED = 100;

  private final List<String> named = new ArrayList<>();
  private long count;

  void add(String message) {
    if (isNaming()) {
      named.add(message);
    }
    count++;
  }

  /** Whether another error would be told in words; else they need not be made. */
  boolean isNaming() {
    return named.size() < NAMED;
  }

  boolean any() {
    return count > 0;
  }

  List<String> messages() {
    if (count == named.size()) {
      return named;
    }
    List<String> all = new ArrayList<>(named);
    all.add("and " + (count - named.size()) + " more");
    return all;
  }
}
