package io.kairoscope.kairosdb.door;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import org.kairosdb.util.Util;

/**
 * Reads numbers as they were written, and refuses those that would become others.
 *
 * <p>KairosDB 1.3.0 takes a number without a point for a long and reads it by {@code
 * BigDecimal.longValue} (DataPointsParser.findType, Gson's LazilyParsedNumber): 1e-7 and 1e400
 * become 0, 2^63 becomes negative, 1.5 of type long becomes 1. By {@code Double.parseDouble}
 * 1.0e400 becomes an infinity and NaN one, which no query can return.
 *
 * <p>Here a number with a point or an exponent is a double, as programs that print floating-point
 * numbers mean it; any other a long. Not for two threads.
 */
final class Numbers {
  // Exact as doubles: whole numbers up to 2^53, powers of ten up to 10^22; so is one operation.
  private static final long EXACT_DOUBLE = 1L << 53;
  private static final double[] POWERS = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22
  };
  private static final int DIGITS_OF_LONG = 18;
  private static final int LONGEST = 1_000;
  private static final int SHOWN = 40;

  private byte[] text;
  private int start;
  private int end;
  private boolean negative;
  private boolean point;
  private boolean exponent;
  // Digits without the point, and the power of ten that they are to be multiplied by; if they fit.
  private long digits;
  private int digitCount;
  private int power;

  /** Whether it is a number: digits, a sign, a point between or before them, an exponent. */
  boolean parse(byte[] text, int start, int end) {
    this.text = text;
    this.start = start;
    this.end = end;
    negative = false;
    point = false;
    exponent = false;
    digits = 0;
    digitCount = 0;
    power = 0;
    int at = start;
    if (at < end && (text[at] == '-' || text[at] == '+')) {
      negative = text[at] == '-';
      at++;
    }
    boolean any = false;
    boolean lastIsDigit = false;
    for (; at < end; at++) {
      int c = text[at];
      if (c >= '0' && c <= '9') {
        any = true;
        lastIsDigit = true;
        if (digitCount > 0 || c != '0') {
          digitCount++;
        }
        if (digitCount <= DIGITS_OF_LONG) {
          digits = digits * 10 + (c - '0');
        }
        if (point) {
          power--;
        }
      } else if (c == '.' && !point) {
        point = true;
        lastIsDigit = false;
      } else {
        break;
      }
    }
    if (!any || !lastIsDigit) {
      return false;
    }
    if (at == end) {
      return true;
    }
    if (text[at] != 'e' && text[at] != 'E') {
      return false;
    }
    exponent = true;
    return parseExponent(at + 1);
  }

  private boolean parseExponent(int from) {
    int at = from;
    boolean minus = at < end && text[at] == '-';
    if (minus || at < end && text[at] == '+') {
      at++;
    }
    if (at == end) {
      return false;
    }
    int value = 0;
    for (; at < end; at++) {
      int c = text[at];
      if (c < '0' || c > '9') {
        return false;
      }
      // Beyond this nothing is exact, and what is read is the text.
      value = Math.min(value * 10 + (c - '0'), 1 << 20);
    }
    power += minus ? -value : value;
    return true;
  }

  /** After a successful parse: whether it was written as a whole number. */
  boolean isWhole() {
    return !point && !exponent;
  }

  boolean hasExponent() {
    return exponent;
  }

  /** What was parsed as a long, if it is exactly one. */
  long asLong() throws Refusal {
    if (isWhole() && digitCount <= DIGITS_OF_LONG) {
      return negative ? -digits : digits;
    }
    checkLength();
    try {
      String number = string();
      return isWhole() ? Long.parseLong(number) : new BigDecimal(number).longValueExact();
    } catch (NumberFormatException error) {
      throw new Refusal(shown() + " is out of the range of long");
    } catch (ArithmeticException error) {
      throw new Refusal(shown() + " is not a whole number in the range of long");
    }
  }

  /** What was parsed as the double next to it; not as an infinity, nor as 0 unless it is. */
  double asDouble() throws Refusal {
    double value;
    if (digitCount <= DIGITS_OF_LONG
        && digits <= EXACT_DOUBLE
        && power > -POWERS.length
        && power < POWERS.length) {
      value = power < 0 ? digits / POWERS[-power] : digits * POWERS[power];
      // As KairosDB has it: -0 is the whole number 0, -0.0 is not.
      return negative && !(digits == 0 && isWhole()) ? -value : value;
    }
    checkLength();
    value = Double.parseDouble(string());
    if (Double.isInfinite(value)) {
      throw new Refusal(shown() + " is out of the range of double");
    }
    if (value == 0 && digitCount > 0) {
      throw new Refusal(shown() + " is too small for a double: it would be 0");
    }
    return value;
  }

  /** As {@code Util.isNumber} has it, for digits of other scripts, which are longs to KairosDB. */
  static long foreignDigits(String text) throws Refusal {
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException error) {
      throw new Refusal(shown(text) + " is not a number of the range of long");
    }
  }

  static boolean isForeign(String text) {
    return text.length() <= LONGEST && Util.isNumber(text);
  }

  private void checkLength() throws Refusal {
    if (end - start > LONGEST) {
      throw new Refusal("a number has more than " + LONGEST + " characters");
    }
  }

  private String string() {
    return new String(text, start, end - start, StandardCharsets.ISO_8859_1);
  }

  private String shown() {
    return shown(string());
  }

  static String shown(String text) {
    return text.length() <= SHOWN ? text : text.substring(0, SHOWN) + "…";
  }
}
