package io.kairoscope.kairosdb.metrics;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A text of metrics, read by all rules of Prometheus' format and those of its conventions that we
 * keep; written against these, not against what writes.
 */
public final class Parsed {
  private static final String NAME = "[a-zA-Z_][a-zA-Z0-9_]*";
  private static final Pattern HELP = Pattern.compile("# HELP (" + NAME + ") (\\S.*)");
  private static final Pattern TYPE =
      Pattern.compile("# TYPE (" + NAME + ") (counter|gauge|summary|histogram)");
  private static final String LABEL = NAME + "=\"(?:[^\"\\\\]|\\\\[\\\\\"n])*\"";
  private static final Pattern SAMPLE =
      Pattern.compile("(" + NAME + ")(?:\\{(" + LABEL + "(?:," + LABEL + ")*)\\})? (\\S+)");
  private static final Pattern EACH = Pattern.compile("(" + NAME + ")=\"((?:[^\"\\\\]|\\\\.)*)\"");

  /** A family, with its samples by their name and labels, as in the text. */
  public record Family(String name, String type, String help, Map<String, Double> samples) {
    /** Its labels, without those that its type has. */
    public List<String> labels() {
      List<String> labels = new ArrayList<>();
      for (String series : samples.keySet()) {
        for (String label : Parsed.labels(series).keySet()) {
          if (!labels.contains(label) && !label.equals("le")) {
            labels.add(label);
          }
        }
      }
      return labels;
    }
  }

  private final Map<String, Family> families = new LinkedHashMap<>();
  private Family now;
  private String help;

  public Parsed(String text) {
    require(text.endsWith("\n"), "the last line has no end");
    for (String line : text.substring(0, text.length() - 1).split("\n", -1)) {
      read(line);
    }
    for (Family family : families.values()) {
      require(!family.samples.isEmpty(), family.name + " has no samples");
      if (family.type.equals("histogram")) {
        checkHistogram(family);
      }
    }
  }

  private static void require(boolean right, String what) {
    if (!right) {
      throw new AssertionError(what);
    }
  }

  private void read(String line) {
    Matcher matcher = HELP.matcher(line);
    if (matcher.matches()) {
      require(help == null, "help twice: " + line);
      help = line;
      return;
    }
    matcher = TYPE.matcher(line);
    if (matcher.matches()) {
      begin(matcher.group(1), matcher.group(2), line);
      return;
    }
    matcher = SAMPLE.matcher(line);
    require(matcher.matches(), "no line of metrics: " + line);
    require(now != null && help == null, "a sample without type: " + line);
    String base = now.name;
    String name = matcher.group(1);
    boolean ours =
        switch (now.type) {
          case "summary" -> List.of(base + "_count", base + "_sum").contains(name);
          case "histogram" ->
              List.of(base + "_count", base + "_sum", base + "_bucket").contains(name);
          default -> base.equals(name);
        };
    require(ours, "a sample of another family than " + base + ": " + line);
    double value = number(matcher.group(3));
    boolean counts = !now.type.equals("gauge");
    require(!counts || value >= 0 && value < Double.POSITIVE_INFINITY, "not a count: " + line);
    String series = line.substring(0, line.lastIndexOf(' '));
    require(now.samples.put(series, value) == null, "twice: " + line);
    labels(series);
  }

  private void begin(String name, String type, String line) {
    Matcher said = help == null ? null : HELP.matcher(help);
    require(said != null && said.matches() && said.group(1).equals(name), "no help: " + line);
    require(name.endsWith("_total") == type.equals("counter"), "only counters are _total: " + line);
    for (String part : List.of("_count", "_sum", "_bucket", "_ms", "_millis", "_seconds_seconds")) {
      require(!name.endsWith(part), "no name by convention: " + line);
    }
    require(name.matches("(kairosdb|jvm|process)_[a-z0-9_]+"), "no prefix of ours: " + line);
    now = new Family(name, type, said.group(2), new LinkedHashMap<>());
    require(families.put(name, now) == null, "a family twice: " + line);
    help = null;
  }

  private static double number(String text) {
    return switch (text) {
      case "+Inf" -> Double.POSITIVE_INFINITY;
      case "-Inf" -> Double.NEGATIVE_INFINITY;
      default -> {
        require(text.matches("-?[0-9]+(\\.[0-9]+)?(E-?[0-9]+)?"), "no number: " + text);
        yield Double.parseDouble(text);
      }
    };
  }

  /** The labels of a sample's name and labels. */
  static Map<String, String> labels(String series) {
    Map<String, String> labels = new LinkedHashMap<>();
    Matcher each = EACH.matcher(series);
    while (each.find()) {
      require(labels.put(each.group(1), each.group(2)) == null, "a label twice: " + series);
    }
    return labels;
  }

  private static void checkHistogram(Family family) {
    Map<Map<String, String>, TreeMap<Double, Double>> buckets = new LinkedHashMap<>();
    Map<Map<String, String>, Double> counts = new LinkedHashMap<>();
    family.samples.forEach(
        (series, value) -> {
          Map<String, String> labels = labels(series);
          String bound = labels.remove("le");
          if (series.startsWith(family.name + "_bucket")) {
            require(bound != null, "a bucket without bound: " + series);
            TreeMap<Double, Double> of = buckets.computeIfAbsent(labels, x -> new TreeMap<>());
            double le = number(bound);
            require(of.isEmpty() || of.lastKey() < le, "bounds go down: " + series);
            require(of.isEmpty() || of.lastEntry().getValue() <= value, "buckets go down: " + series);
            of.put(le, value);
          } else if (series.startsWith(family.name + "_count")) {
            counts.put(labels, value);
          }
        });
    require(buckets.keySet().equals(counts.keySet()), "buckets without count: " + family.name);
    buckets.forEach(
        (labels, of) ->
            require(
                of.lastKey() == Double.POSITIVE_INFINITY
                    && of.lastEntry().getValue().equals(counts.get(labels)),
                "the last bucket is not all: " + family.name + labels));
  }

  /** All families, in their order. */
  public Map<String, Family> families() {
    return families;
  }

  /** The value of a sample, given as it stands in the text. */
  public double value(String series) {
    for (Family family : families.values()) {
      if (family.samples.containsKey(series)) {
        return family.samples.get(series);
      }
    }
    throw new AssertionError("There is no " + series);
  }
}
