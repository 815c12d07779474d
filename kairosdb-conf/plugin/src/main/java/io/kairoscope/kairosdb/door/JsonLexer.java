package io.kairoscope.kairosdb.door;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Words and marks of JSON, from bytes. What was read stands as UTF-8 in {@link #text}, one word
 * behind the other, until the caller sets {@link #textEnd} back.
 *
 * <p>It also takes what Gson takes from KairosDB's clients, as KairosDB reads metrics leniently:
 * comments, strings in single quotes or none, {@code ;} for a comma and {@code =} for a colon.
 *
 * <p>Gson's reader makes characters of all bytes and strings of all numbers first: with KairosDB's
 * parser and event bus 0.80 µs a point of 100 bytes, this with what is around it 0.35 (2026-11-24,
 * a loop of 60,000 series on one core).
 */
final class JsonLexer {
  static final byte STRING = 1;
  static final byte NUMBER = 2;
  static final byte WORD = 3;
  static final byte TRUE = 4;
  static final byte FALSE = 5;
  static final byte NULL = 6;
  static final byte TREE = 7;

  /** No string, number or value of a type of its own may be longer. */
  static final int LONGEST = 1 << 20;

  static final int DEEPEST = 64;
  private static final int KEPT_BYTES = 64 << 10;

  // What ends a word without quotes.
  private static final boolean[] ENDS = new boolean[256];

  static {
    for (char c : "{}[]:,;=#/\\ \t\f\r\n".toCharArray()) {
      ENDS[c] = true;
    }
  }

  byte[] text = new byte[4 << 10];
  int textEnd;

  private final byte[] buffer = new byte[16 << 10];
  private int at;
  private int end;
  private long before;
  private InputStream in;

  /** Begins another body. */
  void begin(InputStream in) throws IOException {
    this.in = in;
    at = 0;
    end = 0;
    before = 0;
    textEnd = 0;
    // A mark of the byte order, which some editors write.
    if (fill() && end >= 3 && (buffer[0] & 0xff) == 0xef) {
      at = (buffer[1] & 0xff) == 0xbb && (buffer[2] & 0xff) == 0xbf ? 3 : 0;
    }
  }

  /** Gives up the body, and the memory that a large one needed. */
  void finish() {
    in = null;
    if (text.length > KEPT_BYTES) {
      text = new byte[4 << 10];
    }
  }

  private boolean fill() throws IOException {
    before += end;
    at = 0;
    end = 0;
    int read = in.read(buffer, 0, buffer.length);
    // A stream that gives nothing and has no end would be one that we spin on.
    while (read == 0) {
      read = in.read(buffer, 0, buffer.length);
    }
    end = Math.max(0, read);
    return end > 0;
  }

  /** The next byte that is neither space nor comment, still to be read; -1 at the end. */
  int peek() throws IOException {
    while (true) {
      while (at < end) {
        byte c = buffer[at];
        if (c > ' ') {
          if (c != '/' && c != '#') {
            return c;
          }
          comment(c);
        } else if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
          at++;
        } else {
          return c & 0xff;
        }
      }
      if (!fill()) {
        return -1;
      }
    }
  }

  private void comment(byte c) throws IOException {
    at++;
    if (c == '/') {
      int next = read();
      if (next == '*') {
        int last = 0;
        for (int b = must(); last != '*' || b != '/'; b = must()) {
          last = b;
        }
        return;
      }
      if (next != '/') {
        throw malformed("a comment or a value");
      }
    }
    int b = read();
    while (b != '\n' && b != '\r' && b != -1) {
      b = read();
    }
  }

  private int read() throws IOException {
    if (at == end && !fill()) {
      return -1;
    }
    return buffer[at++] & 0xff;
  }

  private int must() throws IOException {
    int b = read();
    if (b < 0) {
      throw endOfInput();
    }
    return b;
  }

  /** Reads what was peeked. */
  void skip() {
    at++;
  }

  /** Whether this is next; reads it then. */
  boolean take(int mark) throws IOException {
    if (peek() == mark) {
      at++;
      return true;
    }
    return false;
  }

  /** After a member of an object or an array: whether another one follows. */
  boolean more(int close) throws IOException {
    int c = peek();
    at++;
    if (c == ',' || c == ';') {
      return true;
    }
    if (c == close) {
      return false;
    }
    at--;
    throw c < 0 ? endOfInput() : malformed("',' or '" + (char) close + "'");
  }

  /** Reads the name of a member of an object, and what stands before its value. */
  void name() throws IOException {
    int c = peek();
    if (c == '"' || c == '\'') {
      at++;
      string(c);
    } else if (c < 0) {
      throw endOfInput();
    } else if (ENDS[c]) {
      throw malformed("a name");
    } else {
      word();
    }
    c = peek();
    if (c == ':') {
      at++;
    } else if (c == '=') {
      at++;
      if (at == end && !fill()) {
        throw endOfInput();
      }
      if (buffer[at] == '>') {
        at++;
      }
    } else {
      throw c < 0 ? endOfInput() : malformed("':'");
    }
  }

  /** Reads a value, and tells what it is; a tree as the text that it was written in. */
  byte value() throws IOException {
    int c = peek();
    if (c == '"' || c == '\'') {
      at++;
      string(c);
      return STRING;
    }
    if (c == '{' || c == '[') {
      tree(true);
      return TREE;
    }
    if (c < 0) {
      throw endOfInput();
    }
    if (ENDS[c]) {
      throw malformed("a value");
    }
    int start = textEnd;
    word();
    return kind(start);
  }

  private byte kind(int start) {
    byte first = text[start];
    if (first == '-' || first >= '0' && first <= '9') {
      return isJsonNumber(start) ? NUMBER : WORD;
    }
    if (is(start, textEnd, "null")) {
      return NULL;
    }
    if (is(start, textEnd, "true")) {
      return TRUE;
    }
    return is(start, textEnd, "false") ? FALSE : WORD;
  }

  private boolean isJsonNumber(int start) {
    int i = start;
    if (text[i] == '-') {
      i++;
    }
    int whole = digits(i);
    if (whole == i || text[i] == '0' && whole > i + 1) {
      return false;
    }
    i = whole;
    if (i < textEnd && text[i] == '.') {
      int fraction = digits(i + 1);
      if (fraction == i + 1) {
        return false;
      }
      i = fraction;
    }
    if (i < textEnd && (text[i] | 0x20) == 'e') {
      i++;
      if (i < textEnd && (text[i] == '+' || text[i] == '-')) {
        i++;
      }
      int exponent = digits(i);
      return exponent > i && exponent == textEnd;
    }
    return i == textEnd;
  }

  private int digits(int from) {
    int i = from;
    while (i < textEnd && text[i] >= '0' && text[i] <= '9') {
      i++;
    }
    return i;
  }

  /** Whether the text is this word, as Gson compares null, true and false: in any case. */
  private boolean is(int start, int stop, String word) {
    if (stop - start != word.length()) {
      return false;
    }
    for (int i = 0; i < word.length(); i++) {
      if ((text[start + i] | 0x20) != word.charAt(i)) {
        return false;
      }
    }
    return true;
  }

  /** Passes over a value of any kind. */
  void skipValue() throws IOException {
    int c = peek();
    int start = textEnd;
    if (c == '{' || c == '[') {
      tree(false);
    } else {
      value();
    }
    textEnd = start;
  }

  /** Reads all of an object or an array, with its marks, strings quoted again. */
  private void tree(boolean keep) throws IOException {
    int start = textEnd;
    long open = 0; // a bit for each level: whether it is an object
    int depth = 0;
    do {
      int from = textEnd;
      int c = peek();
      if (c < 0) {
        throw endOfInput();
      }
      if (c == '{' || c == '[') {
        if (++depth >= DEEPEST) {
          throw new MalformedException("JSON is nested deeper than " + DEEPEST + " at " + place());
        }
        open = open << 1 | (c == '{' ? 1 : 0);
        at++;
        append((byte) c);
      } else if (c == '}' || c == ']') {
        if (((open & 1) == 1) != (c == '}')) {
          throw malformed("the other bracket");
        }
        depth--;
        open >>>= 1;
        at++;
        append((byte) c);
      } else if (c == ',' || c == ';' || c == ':' || c == '=') {
        at++;
        append(c == ';' ? (byte) ',' : (byte) c);
      } else if (c == '"' || c == '\'') {
        at++;
        quoted(c);
      } else if (ENDS[c]) {
        throw malformed("a value");
      } else {
        word();
        append((byte) ' '); // two words are not one
      }
      if (!keep) {
        textEnd = from;
      } else if (textEnd - start > LONGEST) {
        throw tooLong();
      }
    } while (depth > 0);
  }

  /** As it was written, quotes and escapes too, for the parser of the tree. */
  private void quoted(int quote) throws IOException {
    int start = textEnd;
    append((byte) quote);
    int b = must();
    for (; b != quote; b = must()) {
      append((byte) b);
      if (b == '\\') {
        append((byte) must());
      }
      if (textEnd - start > LONGEST) {
        throw tooLong();
      }
    }
    append((byte) quote);
  }

  private void word() throws IOException {
    int start = textEnd;
    while (true) {
      int from = at;
      while (at < end && !ENDS[buffer[at] & 0xff]) {
        at++;
      }
      append(from, at, start);
      if (at < end || !fill()) {
        return;
      }
    }
  }

  private void string(int quote) throws IOException {
    int start = textEnd;
    while (true) {
      int from = at;
      byte[] bytes = buffer;
      int i = at;
      while (i < end && bytes[i] != quote && bytes[i] != '\\') {
        i++;
      }
      at = i;
      append(from, i, start);
      if (i == end) {
        if (!fill()) {
          throw endOfInput();
        }
      } else if (bytes[i] == quote) {
        at++;
        return;
      } else {
        at++;
        escape();
      }
    }
  }

  private void escape() throws IOException {
    int c = must();
    switch (c) {
      case 'u' -> unicode();
      case 't' -> append((byte) '\t');
      case 'b' -> append((byte) '\b');
      case 'n' -> append((byte) '\n');
      case 'r' -> append((byte) '\r');
      case 'f' -> append((byte) '\f');
      default -> append((byte) c);
    }
  }

  private void unicode() throws IOException {
    int c = hex();
    while (Character.isHighSurrogate((char) c)) {
      if (peekByte() != '\\') {
        break;
      }
      at++;
      if (peekByte() != 'u') {
        utf8(c);
        escape();
        return;
      }
      at++;
      int low = hex();
      if (Character.isLowSurrogate((char) low)) {
        utf8(Character.toCodePoint((char) c, (char) low));
        return;
      }
      utf8(c);
      c = low;
    }
    utf8(c);
  }

  private int peekByte() throws IOException {
    if (at == end && !fill()) {
      throw endOfInput();
    }
    return buffer[at];
  }

  private int hex() throws IOException {
    int value = 0;
    for (int i = 0; i < 4; i++) {
      int digit = Character.digit(must(), 16);
      if (digit < 0) {
        throw malformed("four hexadecimal digits after \\u");
      }
      value = value << 4 | digit;
    }
    return value;
  }

  private void utf8(int c) {
    if (c < 0x80) {
      append((byte) c);
    } else if (c < 0x800) {
      append((byte) (0xc0 | c >> 6));
      append((byte) (0x80 | c & 0x3f));
    } else if (c >= 0xd800 && c < 0xe000) {
      utf8(0xfffd); // half of a character
    } else if (c < 0x10000) {
      append((byte) (0xe0 | c >> 12));
      append((byte) (0x80 | c >> 6 & 0x3f));
      append((byte) (0x80 | c & 0x3f));
    } else {
      append((byte) (0xf0 | c >> 18));
      append((byte) (0x80 | c >> 12 & 0x3f));
      append((byte) (0x80 | c >> 6 & 0x3f));
      append((byte) (0x80 | c & 0x3f));
    }
  }

  private void append(int from, int to, int start) throws MalformedException {
    int length = to - from;
    if (textEnd + length - start > LONGEST) {
      throw tooLong();
    }
    if (textEnd + length > text.length) {
      text = Arrays.copyOf(text, Math.max(2 * text.length, textEnd + length));
    }
    System.arraycopy(buffer, from, text, textEnd, length);
    textEnd += length;
  }

  private void append(byte c) {
    if (textEnd == text.length) {
      text = Arrays.copyOf(text, 2 * text.length);
    }
    text[textEnd++] = c;
  }

  private MalformedException tooLong() {
    return new MalformedException(
        "A string, number or value has more than " + LONGEST + " bytes at " + place());
  }

  MalformedException malformed(String expected) {
    return new MalformedException("Invalid json. Expected " + expected + " at " + place());
  }

  /** In KairosDB's words. */
  MalformedException endOfInput() {
    return new MalformedException("Invalid json. No content due to end of input.");
  }

  private String place() {
    return "byte " + (before + at);
  }
}
