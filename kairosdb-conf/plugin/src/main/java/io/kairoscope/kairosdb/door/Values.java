package io.kairoscope.kairosdb.door;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.gson.internal.LazilyParsedNumber;
import io.kairoscope.kairosdb.queue.RecordBuffer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.datapoints.DataPointFactory;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datapoints.StringDataPointFactory;
import org.kairosdb.util.Util;

/**
 * Writes values into records, as KairosDB's DataPointsParser (findType) and its factories of long,
 * double and string do, but refuses what these would turn into something else: {@link Numbers}.
 * Other types go to their own factories, as KairosDB calls them. Not for two threads.
 */
final class Values {
  private enum Kind {
    LONG,
    DOUBLE,
    STRING,
    OTHER,
    UNKNOWN
  }

  /** A type as KairosDB's clients name it. */
  static final class Type {
    private final Kind kind;
    private final byte[] name;
    private final DataPointFactory factory;
    private final byte[] stored;

    private Type(byte[] name, DataPointFactory factory) {
      this.name = name;
      this.factory = factory;
      kind = factory == null ? Kind.UNKNOWN : kind(factory);
      stored = factory == null ? null : bytes(factory.getDataStoreType());
    }
  }

  private final KairosDataPointFactory factories;
  private final Numbers numbers = new Numbers();
  private final List<Type> types = new ArrayList<>();
  private final Type plainLong;
  private final Type plainDouble;
  private final Type plainString;

  Values(KairosDataPointFactory factories) {
    this.factories = factories;
    plainLong = type("long");
    plainDouble = type("double");
    plainString = type("string");
  }

  /** The type of this name, which may be none that there is. */
  Type type(String name) {
    byte[] text = bytes(name);
    return type(text, 0, text.length);
  }

  /** The same, of a name in UTF-8. */
  Type type(byte[] text, int start, int end) {
    for (int i = 0; i < types.size(); i++) {
      byte[] name = types.get(i).name;
      if (Arrays.equals(name, 0, name.length, text, start, end)) {
        return types.get(i);
      }
    }
    String name = string(text, start, end);
    if (!factories.isRegisteredType(name)) {
      return new Type(Arrays.copyOfRange(text, start, end), null);
    }
    Type type = new Type(Arrays.copyOfRange(text, start, end), factories.getFactoryForType(name));
    types.add(type);
    return type;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  // The exact classes: a factory in place of them may do anything.
  private static Kind kind(DataPointFactory factory) {
    if (factory.getClass() == LongDataPointFactoryImpl.class) {
      return Kind.LONG;
    }
    if (factory.getClass() == DoubleDataPointFactoryImpl.class) {
      return Kind.DOUBLE;
    }
    return factory.getClass() == StringDataPointFactory.class ? Kind.STRING : Kind.OTHER;
  }

  long timestamp(byte kind, byte[] text, int start, int end) throws Refusal {
    if (kind == JsonLexer.NULL || start == end) {
      throw new Refusal("timestamp may not be null");
    }
    if (isWord(kind) && numbers.parse(text, start, end)) {
      try {
        return numbers.asLong();
      } catch (Refusal error) {
        throw new Refusal("timestamp " + error.getMessage());
      }
    }
    throw new Refusal("timestamp " + shown(text, start, end) + " is not a whole number");
  }

  int ttl(byte kind, byte[] text, int start, int end) throws Refusal {
    if (isWord(kind) && numbers.parse(text, start, end)) {
      try {
        long ttl = numbers.asLong();
        if (ttl == (int) ttl) {
          return (int) ttl;
        }
      } catch (Refusal error) {
        // as below
      }
    }
    throw new Refusal("ttl " + shown(text, start, end) + " is not a number of seconds");
  }

  private static boolean isWord(byte kind) {
    return kind == JsonLexer.NUMBER || kind == JsonLexer.STRING || kind == JsonLexer.WORD;
  }

  /**
   * Writes type and value of a record that was begun, of a value as it was written.
   *
   * @param type null if none came with it: then it is found out
   */
  void write(RecordBuffer record, Type type, byte kind, byte[] text, int start, int end)
      throws Refusal {
    if (kind == JsonLexer.NULL || kind == JsonLexer.STRING && start == end) {
      throw new Refusal("value may not be empty");
    }
    Type its = type;
    try {
      if (its == null) {
        its = found(kind, text, start, end);
        if (its == null) {
          record.type(plainLong.stored);
          Util.packLong(Numbers.foreignDigits(string(text, start, end)), record);
          return;
        }
      } else {
        fits(its, kind, text, start, end);
      }
      if (its.kind == Kind.OTHER) {
        other(record, its, kind, text, start, end);
        return;
      }
      record.type(its.stored);
      switch (its.kind) {
        case LONG -> Util.packLong(numbers.asLong(), record);
        case DOUBLE -> record.writeDouble(numbers.asDouble());
        default -> record.writeUTF(text, start, end);
      }
    } catch (IOException tooLong) {
      throw new Refusal(tooLong.getMessage());
    }
  }

  /** The type of a value that came without one; null is a long in digits of another script. */
  private Type found(byte kind, byte[] text, int start, int end) throws Refusal {
    switch (kind) {
      case JsonLexer.TREE:
        throw new Refusal("value is an invalid type");
      case JsonLexer.TRUE:
      case JsonLexer.FALSE:
        return plainString;
      case JsonLexer.NUMBER:
        if (!numbers.parse(text, start, end)) {
          throw new Refusal(shown(text, start, end) + " is not a number");
        }
        return numbers.isWhole() ? plainLong : plainDouble;
      default:
        return foundInText(kind, text, start, end);
    }
  }

  private Type foundInText(byte kind, byte[] text, int start, int end) throws Refusal {
    if (numbers.parse(text, start, end)) {
      if (numbers.hasExponent()) {
        throw new Refusal(
            shown(text, start, end)
                + " would be stored as text; send it as a number, or with type string");
      }
      return numbers.isWhole() ? plainLong : plainDouble;
    }
    if (isNoNumber(text, start, end)
        || kind == JsonLexer.WORD && "+-.0123456789".indexOf(text[start]) >= 0) {
      throw new Refusal(
          shown(text, start, end)
              + " is not a number that can be stored; send it with type string if it is text");
    }
    for (int i = start; i < end; i++) {
      if (text[i] < 0 && Numbers.isForeign(string(text, start, end))) {
        return null;
      }
    }
    return plainString;
  }

  /** What programs write for what is no number, or for one without an end. */
  private static boolean isNoNumber(byte[] text, int start, int end) {
    int from = start < end && (text[start] == '-' || text[start] == '+') ? start + 1 : start;
    int first = text[from < end ? from : start] | 0x20;
    if (first != 'n' && first != 'i' || end - from > 8) {
      return false;
    }
    String word = string(text, from, end).toLowerCase(Locale.ROOT);
    return word.equals("nan") || word.equals("infinity") || word.equals("inf");
  }

  /** Whether there is such a type; parses a number for one that needs it. */
  private void fits(Type type, byte kind, byte[] text, int start, int end) throws Refusal {
    if (type.kind == Kind.UNKNOWN) {
      String name = string(type.name, 0, type.name.length);
      throw new Refusal("Unregistered data point type '" + Numbers.shown(name) + "'");
    }
    if (type.kind == Kind.OTHER) {
      return;
    }
    if (kind == JsonLexer.TREE) {
      throw new Refusal("value is an invalid type");
    }
    if (type.kind != Kind.STRING && !(isWord(kind) && numbers.parse(text, start, end))) {
      throw new Refusal(
          shown(text, start, end) + " is not a number that can be stored as " + name(type));
    }
  }

  private static String name(Type type) {
    return type.kind == Kind.LONG ? "long" : "double";
  }

  private void other(
      RecordBuffer record, Type type, byte kind, byte[] text, int start, int end)
      throws Refusal, IOException {
    DataPoint point;
    try {
      point = type.factory.getDataPoint(record.time(), json(kind, text, start, end));
    } catch (IOException | RuntimeException error) {
      // Of whatever kind: it is a factory's opinion of a value that the sender chose.
      throw new Refusal("value " + shown(text, start, end) + ": " + error.getMessage());
    }
    if (point == null) {
      throw new Refusal("value " + shown(text, start, end) + " makes no point");
    }
    record.type(point.getDataStoreDataType());
    point.writeValueToBuffer(record);
  }

  private static JsonElement json(byte kind, byte[] text, int start, int end) {
    String string = string(text, start, end);
    return switch (kind) {
      case JsonLexer.NUMBER -> new JsonPrimitive(new LazilyParsedNumber(string));
      case JsonLexer.TRUE -> new JsonPrimitive(true);
      case JsonLexer.FALSE -> new JsonPrimitive(false);
      case JsonLexer.TREE -> new JsonParser().parse(string);
      default -> new JsonPrimitive(string);
    };
  }

  private static String string(byte[] text, int start, int end) {
    return new String(text, start, end - start, StandardCharsets.UTF_8);
  }

  private static String shown(byte[] text, int start, int end) {
    // No more of it than is shown: it may be a megabyte.
    return Numbers.shown(string(text, start, Math.min(end, start + 200)));
  }
}
