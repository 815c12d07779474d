package io.kairoscope.kairosdb.queue;

import java.io.DataOutput;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Bytes one behind the other, in the encodings of java.io.DataOutput. It grows, and is used again. */
class ByteSink implements DataOutput {
  // What a length of two bytes can tell.
  private static final int MAX_STRING_BYTES = 65_535;

  byte[] bytes = new byte[1 << 9];
  int length;

  private void room(int more) {
    if (length + more > bytes.length) {
      bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + more));
    }
  }

  @Override
  public void write(int value) {
    room(1);
    bytes[length++] = (byte) value;
  }

  @Override
  public void write(byte[] from) {
    write(from, 0, from.length);
  }

  @Override
  public void write(byte[] from, int at, int count) {
    room(count);
    System.arraycopy(from, at, bytes, length, count);
    length += count;
  }

  @Override
  public void writeBoolean(boolean value) {
    write(value ? 1 : 0);
  }

  @Override
  public void writeByte(int value) {
    write(value);
  }

  @Override
  public void writeShort(int value) {
    room(Short.BYTES);
    bytes[length++] = (byte) (value >>> 8);
    bytes[length++] = (byte) value;
  }

  @Override
  public void writeChar(int value) {
    writeShort(value);
  }

  @Override
  public void writeInt(int value) {
    room(Integer.BYTES);
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes[length++] = (byte) (value >>> shift);
    }
  }

  @Override
  public void writeLong(long value) {
    room(Long.BYTES);
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes[length++] = (byte) (value >>> shift);
    }
  }

  @Override
  public void writeFloat(float value) {
    writeInt(Float.floatToIntBits(value));
  }

  @Override
  public void writeDouble(double value) {
    writeLong(Double.doubleToLongBits(value));
  }

  @Override
  public void writeBytes(String text) {
    write(text.getBytes(StandardCharsets.ISO_8859_1));
  }

  @Override
  public void writeChars(String text) {
    for (int i = 0; i < text.length(); i++) {
      writeChar(text.charAt(i));
    }
  }

  /** As java.io.DataOutput defines it: its own UTF-8, after a length of two bytes. */
  @Override
  public void writeUTF(String text) throws IOException {
    int lengthAt = length;
    room(2 + 3 * text.length());
    length += 2;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c >= 1 && c < 0x80) {
        bytes[length++] = (byte) c;
      } else if (c < 0x800) {
        bytes[length++] = (byte) (0xc0 | c >> 6);
        bytes[length++] = (byte) (0x80 | c & 0x3f);
      } else {
        bytes[length++] = (byte) (0xe0 | c >> 12);
        bytes[length++] = (byte) (0x80 | c >> 6 & 0x3f);
        bytes[length++] = (byte) (0x80 | c & 0x3f);
      }
    }
    lengthOf(lengthAt);
  }

  /**
   * A string as {@link #writeUTF} writes it, which stands somewhere in plain UTF-8: mostly the same
   * bytes, and no string need be made of them.
   *
   * @throws IOException if it is too long for that
   */
  public final void writeUTF(byte[] utf8, int from, int to) throws IOException {
    int count = to - from;
    room(2 + count);
    byte[] into = bytes;
    int at = length + 2;
    int i = from;
    while (i < to && utf8[i] > 0) {
      into[at++] = utf8[i++];
    }
    if (i < to) {
      writeUTF(new String(utf8, from, count, StandardCharsets.UTF_8));
      return;
    }
    int lengthAt = length;
    length = at;
    lengthOf(lengthAt);
  }

  private void lengthOf(int lengthAt) throws IOException {
    int count = length - lengthAt - 2;
    if (count > MAX_STRING_BYTES) {
      length = lengthAt;
      throw new IOException("a string of " + count + " bytes, of " + MAX_STRING_BYTES + " at most");
    }
    bytes[lengthAt] = (byte) (count >>> 8);
    bytes[lengthAt + 1] = (byte) count;
  }
}
