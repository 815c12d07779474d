package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.HashMultimap;
import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.ImmutableSortedMap;
import com.google.common.collect.SetMultimap;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SortedMap;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** As KairosDB means the tags of a query: of each name that it has, one of its values. */
class TagFilterTest {
  // Of one, two and three bytes a character, the one that has two although it is 0, and pairs of
  // characters; some begin as others do.
  private static final List<String> WORDS =
      List.of("", "a", "ab", "b", "\u0000", "\u00e9", "\u20ac", "\ud83d\ude00", "a\u0000", "a=b");

  private final Records records = new Records();

  private boolean has(SortedMap<String, String> tags, SetMultimap<String, String> wanted) {
    RecordBuffer record = records.of("m", tags, 1, 2, 0);
    return new TagFilter(wanted).areIn(record.bytes(), record.tagsAt(0));
  }

  @Test
  void itSaysWhatTheStringsSay() {
    Random random = new Random(1);
    int had = 0;
    for (int round = 0; round < 50_000; round++) {
      SortedMap<String, String> tags = new TreeMap<>();
      for (int i = random.nextInt(4); i > 0; i--) {
        tags.put(WORDS.get(random.nextInt(5)), WORDS.get(random.nextInt(WORDS.size())));
      }
      SetMultimap<String, String> wanted = HashMultimap.create();
      for (Map.Entry<String, String> tag : tags.entrySet()) {
        if (random.nextBoolean()) {
          wanted.put(tag.getKey(), tag.getValue());
        }
      }
      for (int i = random.nextInt(4); i > 0; i--) {
        wanted.put(WORDS.get(random.nextInt(4)), WORDS.get(random.nextInt(WORDS.size())));
      }
      boolean expected = true;
      for (Map.Entry<String, Collection<String>> tag : wanted.asMap().entrySet()) {
        expected &= tag.getValue().contains(tags.get(tag.getKey()));
      }
      assertEquals(expected, has(tags, wanted), tags + " for " + wanted);
      had += expected && !wanted.isEmpty() ? 1 : 0;
    }
    assertTrue(had > 1_000, "some have them: " + had);
  }

  @Test
  void whatNoRecordCanHaveIsInNone() {
    String tooLong = "x".repeat(70_000);
    ImmutableSortedMap<String, String> tags = ImmutableSortedMap.of("s", "1");
    assertFalse(has(tags, ImmutableSetMultimap.of("s", tooLong)));
    assertFalse(has(tags, ImmutableSetMultimap.of("s", "1", tooLong, "1")));
    assertTrue(has(tags, ImmutableSetMultimap.of("s", "1", "s", tooLong)));
    assertTrue(new TagFilter(ImmutableSetMultimap.of()).isEmpty());
    assertFalse(new TagFilter(ImmutableSetMultimap.of(tooLong, "1")).isEmpty());
  }
}
