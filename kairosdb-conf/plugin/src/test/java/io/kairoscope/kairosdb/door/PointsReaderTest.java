package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.GsonBuilder;
import io.kairoscope.kairosdb.queue.Decoded;
import io.kairoscope.kairosdb.queue.NotTakenError;
import io.kairoscope.kairosdb.queue.TestConfig;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.http.rest.json.DataPointsParser;
import org.kairosdb.core.http.rest.json.ValidationErrors;
import org.kairosdb.eventbus.EventBusConfiguration;
import org.kairosdb.eventbus.FilterEventBus;
import org.kairosdb.eventbus.Subscribe;
import org.kairosdb.events.DataPointEvent;
import org.kairosdb.util.KDataOutput;

/** The same points as KairosDB's own parser; and what that takes and should not is refused. */
class PointsReaderTest {
  private static final long RECORD_BYTES = 64 << 20;

  private final FakeQueue queue = new FakeQueue();
  private final PointsReader reader =
      new PointsReader(queue, new FakeFactories(), new LargeRequests(64 << 20), RECORD_BYTES);

  private List<String> read(String body) throws IOException {
    return read(new ByteArrayInputStream(body.getBytes(StandardCharsets.UTF_8)));
  }

  private List<String> read(InputStream body) throws IOException {
    Errors errors = new Errors();
    reader.read(body, errors);
    return errors.messages();
  }

  private static String said(String metric, Map<String, String> tags, DataPoint point, int ttl) {
    try {
      KDataOutput value = new KDataOutput();
      point.writeValueToBuffer(value);
      return metric + tags + point.getTimestamp() + point.getClass().getSimpleName() + " "
          + Arrays.toString(value.getBytes()) + " " + ttl;
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private List<String> ours() {
    return queue.puts.stream().map(p -> said(p.metric(), p.tags(), p.point(), p.ttlS())).toList();
  }

  /** What KairosDB's parser makes of a body; null if it does not take all of it. */
  private static List<String> theirs(String body) throws Exception {
    List<String> points = new ArrayList<>();
    FilterEventBus bus = new FilterEventBus(new EventBusConfiguration(TestConfig.of(Map.of())));
    bus.register(
        new Object() {
          @Subscribe
          public void put(DataPointEvent event) {
            points.add(
                said(
                    event.getMetricName(), event.getTags(), event.getDataPoint(), event.getTtl()));
          }
        });
    ValidationErrors errors =
        new DataPointsParser(
                bus.createPublisher(DataPointEvent.class),
                new StringReader(body),
                new GsonBuilder().disableHtmlEscaping().create(),
                new FakeFactories())
            .parse();
    assertEquals(List.of(), errors.getErrors(), body);
    return points;
  }

  private void same(String body) throws Exception {
    queue.puts.clear();
    assertEquals(List.of(), read(body), body);
    assertEquals(theirs(body), ours(), body);
    // However the bytes come.
    queue.puts.clear();
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    InputStream slow =
        new ByteArrayInputStream(bytes) {
          @Override
          public int read(byte[] to, int offset, int length) {
            return super.read(to, offset, Math.min(length, 1 + bytes.length % 3));
          }
        };
    assertEquals(List.of(), read(slow), body);
    assertEquals(theirs(body), ours(), body);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "[]",
        " [ ] ",
        "[{'name':'m','timestamp':1,'value':2,'tags':{'a':'b'}}]",
        "{'name':'m','datapoints':[[1,2],[3,4.5,'double'],[5,'x']],'tags':{'b':'c','a':'d'}}",
        "{'tags':{'a':'b'},'datapoints':[[1,2]],'ttl':30,'name':'m','type':'double'}",
        "{'name':'m','time':7,'timestamp':1,'value':'6','tags':{'a':'b'},'ttl':'8'}",
        "{'name':'m','timestamp':'12','value':-6.25,'tags':{'a':'b'},'ttl':null}",
        "{'name':'m','timestamp':1,'value':1,'datapoints':[[2,3]],'tags':{'a':'b'}}",
        "{'name':'m','timestamp':1.7e12,'value':'.5','tags':{'a':'b'}}",
        "{'name':'m','datapoints':[['1','+5'],[2,'-0.5'],[3,'007'],[4,true],[5,'5.'],[6,'1.2.3']],"
            + "'tags':{'a':'b'}}",
        "{'name':'m','datapoints':[[1,5,'string'],[2,1.50,'string'],[3,'7','long'],[4,5.0,'long'],"
            + "[5,true,'string'],[6,1e3,'long'],[7,5,'double'],[8,'2.5','double']],"
            + "'tags':{'a':'b'}}",
        "{'name':'m','datapoints':[[1,{'real':1,'imaginary':2.5},'complex']],'tags':{'a':'b'}}",
        "{'name':'m','timestamp':1,'value':{'real':1,'imaginary':-2},'type':'complex',"
            + "'tags':{'a':'b'}}",
        "{'name':'m','timestamp':1,'value':1,'skip_validate':true}",
        "{'name':'m','timestamp':1,'value':1,'skip_validate':true,'tags':{'a':''}}",
        "{'name':'m','tags':{'a':'b'}}",
        "{'name':'m','tags':{'a':'b'},'datapoints':[]}",
        "{'name':'m','tags':{'a':'b'},'datapoints':null,'value':null}",
        "{'name':'m','tags':{'a':5,'b':true,'c':1.50},'datapoints':[[1,2]]}",
        "{'unknown':{'a':[1,{'b':null}],'c':'}'},'name':'m','tags':{'a':'b'},'timestamp':1,"
            + "'value':2,'more':[]}",
        "{'name':'\\u00e4\\n\\\"\\/\\\\\\ud83d\\ude00ä😀','tags':{'ключ':'значение'},"
            + "'timestamp':1,'value':'\\t'}",
        "{name:m,tags:{a:b;c=d,e=>f},timestamp:1,value:hello}",
        "[{'name':'m', // c\n 'tags':[['a','b'],/* d */['c','d']],# e\n'timestamp':1,'value':2}]",
        "{'name':'m','tags':{'a':'b'},'datapoints':[[-1,-9223372036854775808],"
            + "[9223372036854775807,9223372036854775807],[0,0],[1,-0],[2,-0.0],"
            + "[3,123456789012345678]]}",
        "{'name':'m','tags':{'a':'b'},'datapoints':[[1,0.1],[2,1.7976931348623157e308],"
            + "[3,4.9e-324],[4,9007199254740993.0],[5,0.30000000000000004],[6,123456.789],"
            + "[7,3.0e22],[8,3.0e23],[9,1234567890123456789012.5],[10,2.2250738585072012e-308]]}",
        "{'name':'m','tags':{'a':'b'},'timestamp':1,'value':'٣'}",
        "{'name':5,'tags':{'a':'b'},'timestamp':1,'value':1,'type':'long'}",
        "{'name':'m','name':'n','tags':{'a':'b'},'timestamp':1,'timestamp':2,'value':1}",
      })
  void takesWhatKairosDbTakes(String body) throws Exception {
    same(body);
    same(body.replace('\'', '"'));
  }

  @Test
  void takesCommentsWhereKairosDbTakesThemInsideOnly() throws IOException {
    String comments = "/* c */ [ // d\n {'name':'m', # e\n 'tags':{'a':'b'},'time':1,'value':2}]";
    assertEquals(List.of(), read(comments));
    assertEquals(1, queue.puts.size());
  }

  @Test
  void takesGeneratedBodiesAsKairosDbDoes() throws Exception {
    Random random = new Random(21);
    for (int i = 0; i < 400; i++) {
      same(new Bodies(random).body());
    }
  }

  /** Written as KairosDB would take them, and not as it would store them. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "1e400", // 0, by BigDecimal.longValue
        "-1e400",
        "1.0e400", // an infinity, which no query returns
        "9223372036854775808", // 2^63: negative
        "18446744073709551616", // 2^64: 0
        "-9223372036854775809",
        "1e-400", // 0
        "1.0e-400",
        "NaN", // text
        "Infinity",
        "-Infinity",
        "'NaN'",
        "'-inf'",
        "'1e5'", // text, beside numbers
        "5.", // text
        "0x10",
        "1.5,'long'", // 1
        "1e400,'long'",
        "1e-3,'long'", // 0
        "9223372036854775808,'long'",
        "1e400,'double'",
        "'NaN','double'", // no query of it can be answered
        "'Infinity','double'",
        "NaN,'double'",
        "true,'long'", // from here on KairosDB says 500
        "'abc','double'",
        "1,'nosuchtype'",
        "[1],'long'",
        "{},'double'",
        "{'real':1},'complex'",
        "[1]",
        "{}",
        "null",
        "''",
      })
  void refusesNumbersThatWouldBecomeOthers(String value) throws IOException {
    String body =
        "{'name':'m','tags':{'a':'b'},'datapoints':[[1,1],[2," + value + "],[3,3]]}";
    List<String> errors = read(body);
    assertEquals(1, errors.size(), value);
    assertTrue(errors.get(0).startsWith("metric[0](name=m).datapoints[1]: "), errors.get(0));
    assertEquals(2, reader.taken());
    assertEquals(1, reader.refused());
    assertEquals(List.of(1L, 3L), queue.puts.stream().map(p -> p.point().getTimestamp()).toList());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "1.5", "1e400", "1e-1", "9223372036854775808", "null", "true", "'x'", "[]", "NaN", "''",
      })
  void refusesTimesThatAreNone(String time) throws IOException {
    List<String> errors =
        read("{'name':'m','tags':{'a':'b'},'datapoints':[[" + time + ",1],[2,2]]}");
    assertEquals(1, errors.size());
    assertTrue(errors.get(0).contains("datapoints[0]: timestamp "), errors.get(0));
    assertEquals(1, queue.puts.size());
  }

  @ParameterizedTest
  @ValueSource(strings = {"1e5", "1E+5", "1e-7", "1e16", "12345678901234567890e-3"})
  void aNumberWithAnExponentIsADouble(String value) throws IOException {
    assertEquals(List.of(), read("{'name':'m','tags':{'a':'b'},'datapoints':[[1," + value + "]]}"));
    DataPoint point = queue.puts.get(0).point();
    assertEquals("double", point.getApiDataType());
    assertEquals(Double.parseDouble(value), point.getDoubleValue());
  }

  @Test
  void doublesAreTheNearestOnes() throws IOException {
    Random random = new Random(3);
    for (int i = 0; i < 20_000; i++) {
      String value =
          switch (i % 4) {
            case 0 -> Double.toString(Double.longBitsToDouble(random.nextLong()));
            case 1 -> Double.toString(random.nextGaussian() * 1000);
            case 2 -> random.nextLong() + "." + Math.abs(random.nextLong());
            default -> random.nextInt(100_000) / 100 + ".5e" + (random.nextInt(50) - 25);
          };
      if (!Double.isFinite(Double.parseDouble(value))) {
        continue;
      }
      queue.puts.clear();
      read("{'name':'m','tags':{'a':'b'},'datapoints':[[1," + value + "]]}");
      assertEquals(Double.parseDouble(value), queue.puts.get(0).point().getDoubleValue(), value);
    }
  }

  @Test
  void namesEachBadPointAndTakesTheOthers() throws IOException {
    List<String> errors =
        read(
            "[{'name':'m','tags':{'a':'b'},'datapoints':[[1],[],5,null,[2,2]]},"
                + "{'tags':{'a':'b'},'timestamp':1,'value':1},"
                + "{'name':'','tags':{'a':'b'},'timestamp':1,'value':1},"
                + "{'name':'n','timestamp':1,'value':1},"
                + "{'name':'n','tags':{'a':null},'timestamp':1,'value':1},"
                + "{'name':'n','tags':{'a':''},'timestamp':1,'value':1},"
                + "{'name':'n','tags':{'a':'b','a':'c'},'timestamp':1,'value':1},"
                + "{'name':'n','tags':'x','timestamp':1,'value':1},"
                + "null,"
                + "{'name':'n','tags':{'a':'b'},'timestamp':1},"
                + "{'name':'n','tags':{'a':'b'},'value':1},"
                + "{'name':'n','tags':{'a':'b'},'value':1,'timestamp':1,'ttl':-1},"
                + "{'name':'n','tags':{'a':'b'},'value':1,'timestamp':1,'ttl':1e10},"
                + "{'name':'n','tags':{'a':'b'},'value':1,'timestamp':1,'type':'no'},"
                + "{'name':'n','tags':{'a':'b'},'datapoints':5},"
                + "{'name':'last','tags':{'a':'b'},'datapoints':[[1,1]]}]");
    assertEquals(
        List.of(
            "metric[0](name=m).datapoints[0].value cannot be null or empty.",
            "metric[0](name=m).datapoints[1].timestamp cannot be null or empty.",
            "metric[0](name=m).datapoints[2] must be an array of timestamp and value.",
            "metric[0](name=m).datapoints[3] must be an array of timestamp and value.",
            "metric[1].name may not be null.",
            "metric[2].name may not be empty.",
            "metric[3](name=n).tags count must be greater than or equal to 1.",
            "metric[4](name=n).tag[0].value may not be null.",
            "metric[5](name=n).tag[a].value may not be empty.",
            "metric[6](name=n).tags has a name twice.",
            "metric[7](name=n).tags must be an object",
            "metric[8] must be an object",
            "metric[9](name=n).value may not be null.",
            "metric[10](name=n).timestamp may not be null.",
            "metric[11](name=n): ttl is negative",
            "metric[12](name=n): ttl 1e10 is not a number of seconds",
            "metric[13](name=n): Unregistered data point type 'no'",
            "metric[14](name=n).datapoints[0] must be an array of timestamp and value."),
        errors);
    assertEquals(List.of("m", "last"), queue.puts.stream().map(Decoded::metric).toList());
    assertEquals(2, reader.taken());
    assertEquals(18, reader.refused());
  }

  @Test
  void namesAHundredAndCountsTheRest() throws IOException {
    StringBuilder body = new StringBuilder("{'name':'m','tags':{'a':'b'},'datapoints':[[1,1]");
    for (int i = 0; i < 5_000; i++) {
      body.append(",[1,NaN]");
    }
    List<String> errors = read(body + "]}");
    assertEquals(101, errors.size());
    assertEquals("and 4900 more", errors.get(100));
    assertEquals(5_000, reader.refused());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "5",
        "x",
        "[",
        "[{",
        "[{}",
        "[{},",
        "[{}]]",
        "[{}][{}]", // KairosDB passes over the second, and says 204
        "{}{}",
        "[{},]",
        "[{'name'}]",
        "[{'name':}]",
        "[{'name':'x}]",
        "[{'name':'\\u12",
        "[{'name':'\\uzzzz'}]",
        "[{'datapoints':[[1,2}]}]",
        "[{'datapoints':[[1 2]]}]",
        "[{'x':[1}]",
        "[{'tags':[['a']]}]",
        "/* no end",
      })
  void sayWhereItIsNoJson(String end) {
    String good = "[{'name':'m','tags':{'a':'b'},'timestamp':1,'value':1},";
    String body = end.startsWith("[{") ? good + end.substring(1) : end;
    assertThrows(MalformedException.class, () -> read(body), body);
    assertEquals(body.startsWith(good) ? 1 : 0, reader.taken());
    reader();
  }

  // And it can be used again.
  private void reader() {
    queue.puts.clear();
    try {
      assertEquals(
          List.of(), read("{'name':'m','tags':{'a':'b'},'timestamp':1,'value':1}"));
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
    assertEquals(1, queue.puts.size());
  }

  @Test
  void noSingleWordAndNoDepthEatsTheHeap() {
    for (String begin :
        List.of(
            "{'name':'",
            "{'x':'",
            "{'x",
            "{'value':1",
            "{'tags':{'a':'",
            "{'value':['",
            "{'x':[",
            "{'datapoints':[[1,[")) {
      InputStream endless =
          new InputStream() {
            private int at;

            @Override
            public int read() {
              return at < begin.length() ? begin.charAt(at++) : begin.endsWith("[") ? '[' : '1';
            }
          };
      assertThrows(MalformedException.class, () -> read(endless), begin);
    }
    reader();
  }

  @Test
  void manyPointsOfOneMetricAskForTheirMemory() throws IOException {
    LargeRequests memory = new LargeRequests(4 << 20);
    PointsReader small = new PointsReader(queue, new FakeFactories(), memory, RECORD_BYTES);
    byte[] body =
        ("{'name':'m','datapoints':[[1,1]" + ",[1,1]".repeat(100_000) + "],'tags':{'a':'b'}}")
            .getBytes(StandardCharsets.UTF_8);
    small.read(new ByteArrayInputStream(body), new Errors());
    assertEquals(100_001, queue.puts.size());
    assertEquals(4 << 20, memory.left());
    memory.take(3 << 20);
    assertThrows(
        NotTakenError.class, () -> small.read(new ByteArrayInputStream(body), new Errors()));
    memory.give(3 << 20);
    assertEquals(4 << 20, memory.left());
    byte[] more =
        ("{'name':'m','datapoints':[[1,1]" + ",[1,1]".repeat(1_000_000)).getBytes();
    assertThrows(
        TooLargeException.class, () -> small.read(new ByteArrayInputStream(more), new Errors()));
    assertEquals(4 << 20, memory.left());
  }

  /** Each record has metric and tags, which the body has once. */
  @Test
  void aSmallBodyDoesNotFillTheQueue() throws IOException {
    queue.keeps = false;
    String tags = "'tags':{'a':'" + "x".repeat(60_000) + "'}";
    String points = "'datapoints':[[1,1]" + ",[1,1]".repeat(9_999) + "]";
    String large = "{'name':'m'," + tags + "," + points + "}";
    for (String body : List.of(large, "[" + large + "," + large + "]")) {
      TooLargeException error = assertThrows(TooLargeException.class, () -> read(body));
      assertTrue(error.getMessage().contains("more than 64 MB in the queue"), error.getMessage());
      long most = RECORD_BYTES / 60_000 + 2;
      assertTrue(reader.taken() > most - 5 && reader.taken() <= most, "took " + reader.taken());
    }
    // As many short ones are no trouble, and what was before does not count.
    for (int i = 0; i < 3; i++) {
      String honest = "{'name':'m','tags':{'a':'b'}," + points + "}";
      assertEquals(List.of(), read("[" + String.join(",", Collections.nCopies(50, honest)) + "]"));
      assertEquals(500_000, reader.taken());
    }
    // Many metrics of one point, too.
    String one = "{'name':'m'," + tags + ",'timestamp':1,'value':1}";
    assertThrows(
        TooLargeException.class,
        () -> read("[" + String.join(",", Collections.nCopies(1_200, one)) + "]"));
  }

  /** Millions of them would fit into a body, and not into the heap. */
  @Test
  void moreTagsThanAKeyCanHaveAreNotKept() throws IOException {
    StringBuilder tags = new StringBuilder();
    for (int i = 0; i < 400_000; i++) {
      tags.append(i == 0 ? "" : ",").append("'t").append(i).append("':'v'");
    }
    List<String> errors =
        read(
            "[{'name':'m','tags':{" + tags + "},'timestamp':1,'value':1},"
                + "{'name':'n','tags':{'a':'b'},'timestamp':1,'value':1}]");
    assertEquals(
        List.of("metric[0](name=m).tags are too long for a key of the store"), errors);
    assertEquals(1, queue.puts.size());
    assertTrue(reader.tagRoom() < 1 << 17, "kept " + reader.tagRoom());
  }

  /** KairosDB takes the last array, and says 204. */
  @Test
  void pointsThatAreThereTwiceAreRefusedAndNotPassedOver() throws IOException {
    List<String> errors =
        read(
            "[{'name':'m','tags':{'a':'b'},'datapoints':[[1,1],[2,2]],'datapoints':[[3,3]]},"
                + "{'name':'n','tags':{'a':'b'},'datapoints':[],'datapoints':[[3,3]]}]");
    assertEquals(List.of("metric[0](name=m).datapoints is there twice."), errors);
    assertEquals(3, reader.refused());
    assertEquals(1, reader.taken());
  }

  /** Torn and altered bodies: an answer to each, in time, and a reader that works after it. */
  @Test
  void noBodyHangsOrBreaksIt() throws IOException {
    Random random = new Random(5);
    Bodies bodies = new Bodies(random);
    for (int i = 0; i < 3_000; i++) {
      byte[] body = bodies.body().getBytes(StandardCharsets.UTF_8);
      for (int change = random.nextInt(4); change > 0; change--) {
        byte[] marks = "{}[],:\"'\\\n;#/=*tn0-.eE\u00ff".getBytes(StandardCharsets.ISO_8859_1);
        body[random.nextInt(body.length)] = marks[random.nextInt(marks.length)];
      }
      byte[] torn = Arrays.copyOf(body, random.nextInt(body.length + 1));
      queue.puts.clear();
      try {
        read(new ByteArrayInputStream(random.nextBoolean() ? torn : body));
      } catch (MalformedException expected) {
        // and nothing else
      }
      assertEquals(queue.puts.size(), reader.taken());
    }
    reader();
  }
}
