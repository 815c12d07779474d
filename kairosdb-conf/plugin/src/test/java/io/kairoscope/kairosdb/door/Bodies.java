package io.kairoscope.kairosdb.door;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** Bodies that KairosDB takes, in any order of members and with any of its types. */
final class Bodies {
  private static final String[] TEXTS = {
    "m", "sensor.temperature", "ä", "日本", "a b", "\\u0041\\n", "x\\\"y", "😀", "a/b", "kairos=1",
    // Where the orders of characters, of their UTF-8 and of a record's encoding are not the same.
    "\\u0000", "\\u0001", "\\uff5e", "\\ud83d\\ude00", "m\\u0000"
  };

  private final Random random;

  Bodies(Random random) {
    this.random = random;
  }

  String body() {
    if (random.nextInt(5) == 0) {
      return metric();
    }
    List<String> metrics = new ArrayList<>();
    for (int i = random.nextInt(6); i > 0; i--) {
      metrics.add(metric());
    }
    return space() + "[" + String.join("," + space(), metrics) + space() + "]" + space();
  }

  private String space() {
    return " \n\t\r ".substring(0, random.nextInt(4));
  }

  private String text() {
    return '"' + TEXTS[random.nextInt(TEXTS.length)] + random.nextInt(3) + '"';
  }

  private String metric() {
    List<String> members = new ArrayList<>();
    members.add("\"name\":" + space() + text());
    List<String> tags = new ArrayList<>();
    for (int i = random.nextInt(6); i >= 0; i--) {
      String value = random.nextInt(8) == 0 ? "" + random.nextInt() : text();
      tags.add("\"" + TEXTS[random.nextInt(TEXTS.length)] + i + "\":" + value);
    }
    Collections.shuffle(tags, random);
    members.add("\"tags\":{" + String.join(",", tags) + "}");
    String type = null;
    if (random.nextInt(3) == 0) {
      type = List.of("long", "double", "string", "complex").get(random.nextInt(4));
      members.add("\"type\":\"" + type + '"');
    }
    if (random.nextInt(3) == 0) {
      members.add("\"ttl\":" + random.nextInt(100_000));
    }
    if (random.nextInt(3) == 0) {
      members.add("\"unknown\":[{\"a\":" + text() + "},null,[[]]]");
    }
    if (random.nextInt(3) == 0) {
      members.add((random.nextBoolean() ? "\"time\":" : "\"timestamp\":") + time());
      members.add("\"value\":" + value(type));
    }
    List<String> points = new ArrayList<>();
    for (int i = random.nextInt(5); i > 0; i--) {
      if (random.nextInt(4) == 0) {
        String its = List.of("long", "double", "string", "complex").get(random.nextInt(4));
        points.add("[" + time() + "," + value(its) + ",\"" + its + "\"]");
      } else {
        points.add("[" + time() + space() + "," + value(type) + "]");
      }
    }
    members.add("\"datapoints\":[" + String.join(",", points) + "]");
    Collections.shuffle(members, random);
    return space() + "{" + space() + String.join("," + space(), members) + "}";
  }

  private String time() {
    long time = random.nextLong() >> random.nextInt(60);
    return random.nextInt(5) == 0 ? "\"" + time + '"' : "" + time;
  }

  private String value(String type) {
    String whole = "" + (random.nextLong() >> random.nextInt(63));
    double gauss = random.nextGaussian() * Math.pow(10, random.nextInt(12) - 4);
    String real = Double.toString(gauss); // with a point, always
    switch (type == null ? "" : type) {
      case "long":
        return random.nextBoolean() ? whole : '"' + whole + '"';
      case "double":
        return random.nextBoolean() ? real : random.nextBoolean() ? '"' + real + '"' : whole;
      case "complex":
        return "{\"real\":" + real + ",\"imaginary\":" + random.nextInt(100) + "}";
      case "string":
        return random.nextBoolean() ? text() : "true";
      default:
        return switch (random.nextInt(5)) {
          case 0 -> whole;
          case 1 -> '"' + whole + '"';
          case 2 -> text();
          case 3 -> random.nextBoolean() ? "true" : "false";
          default -> real;
        };
    }
  }
}
