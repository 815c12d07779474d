package io.kairoscope.kairosdb.door;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.gson.internal.LazilyParsedNumber;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.datapoints.DataPointFactory;
import org.kairosdb.core.datapoints.DoubleDataPoint;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datapoints.StringDataPoint;
import org.kairosdb.core.datapoints.StringDataPointFactory;

/**
 * Makes points of values, as KairosDB's DataPointsParser (findType) and its factories of long,
 * double and string do, but refuses what these would turn into something else: {@link Numbers}.
 * Other types go to their own factories, as KairosDB calls them. Not for two threads.
 */
final class Values {
  // What DataOutput.writeUTF can write, which KairosDB stores strings with.
  private static final int LONGEST_TEXT = 65_535;

  private enum Kind {
    LONG,
    DOUBLE,
    STRING,
    OTHER
  }

  private record Type(Kind kind, DataPointFactory factory) {}

  private final KairosDataPointFactory factories;
  private final Numbers numbers = new Numbers();
  private final Map<String, Type> types = new HashMap<>();
  private final Type plainLong;
  private final Type plainDouble;
  private final Type plainString;

  Values(KairosDataPointFactory factories) {
    this.factories = factories;
    plainLong = type("long");
    plainDouble = type("double");
    plainString = type("string");
  }

  /** Null if there is no such type. */
  private Type type(String name) {
    Type type = types.get(name);
    if (type == null && factories.isRegisteredType(name)) {
      DataPointFactory factory = factories.getFactoryForType(name);
      type = new Type(kind(factory), factory);
      types.put(name, type);
    }
    return type;
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

  /** A point of a value as it was written; the type may be null, and is found out then. */
  DataPoint point(long time, String typeName, byte kind, byte[] text, int start, int end)
      throws Refusal {
    if (kind == JsonLexer.NULL || kind == JsonLexer.STRING && start == end) {
      throw new Refusal("value may not be empty");
    }
    Type type;
    if (typeName == null) {
      type = found(kind, text, start, end);
      if (type == null) {
        return new LongDataPoint(time, Numbers.foreignDigits(string(text, start, end)));
      }
    } else {
      type = type(typeName);
      if (type == null) {
        throw new Refusal("Unregistered data point type '" + Numbers.shown(typeName) + "'");
      }
      if (type.kind != Kind.OTHER) {
        fits(type, kind, text, start, end);
      }
    }
    return switch (type.kind) {
      case LONG -> new LongDataPoint(time, numbers.asLong());
      case DOUBLE -> new DoubleDataPoint(time, numbers.asDouble());
      case STRING -> new StringDataPoint(time, text(text, start, end));
      case OTHER -> other(type, time, kind, text, start, end);
    };
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

  /** Parses a number for a type that needs one. */
  private void fits(Type type, byte kind, byte[] text, int start, int end) throws Refusal {
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

  private DataPoint other(Type type, long time, byte kind, byte[] text, int start, int end)
      throws Refusal {
    try {
      DataPoint point = type.factory.getDataPoint(time, json(kind, text, start, end));
      if (point != null) {
        return point;
      }
    } catch (IOException | RuntimeException error) {
      // Of whatever kind: it is a factory's opinion of a value that the sender chose.
      throw new Refusal("value " + shown(text, start, end) + ": " + error.getMessage());
    }
    throw new Refusal("value " + shown(text, start, end) + " makes no point");
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

  private static String text(byte[] text, int start, int end) throws Refusal {
    String string = string(text, start, end);
    if (end - start > LONGEST_TEXT / 3) {
      long bytes = 0;
      for (int i = 0; i < string.length(); i++) {
        char c = string.charAt(i);
        bytes += c > 0 && c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
      }
      if (bytes > LONGEST_TEXT) {
        throw new Refusal("a string of " + bytes + " bytes; KairosDB stores " + LONGEST_TEXT);
      }
    }
    return string;
  }

  private static String string(byte[] text, int start, int end) {
    return new String(text, start, end - start, StandardCharsets.UTF_8);
  }

  private static String shown(byte[] text, int start, int end) {
    // No more of it than is shown: it may be a megabyte.
    return Numbers.shown(string(text, start, Math.min(end, start + 200)));
  }
}
