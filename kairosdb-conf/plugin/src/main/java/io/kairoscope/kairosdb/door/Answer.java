package io.kairoscope.kairosdb.door;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import javax.servlet.http.HttpServletResponse;

/** Answers in KairosDB's form, {@code {"errors": […]}}, with what was taken beside it. */
final class Answer {
  static final int TOO_LARGE = 413;
  static final int TOO_MANY = 429;

  private Answer() {}

  /** As KairosDB's MetricsResource.setHeaders, for pages of other servers. */
  static void headers(HttpServletResponse response) {
    response.setHeader("Access-Control-Allow-Origin", "*");
    response.setHeader("Pragma", "no-cache");
    response.setHeader("Cache-Control", "no-cache");
    response.setHeader("Expires", "0");
  }

  /** Answers, unless the answer has begun already; negative numbers are left out. */
  static void send(
      HttpServletResponse response, int status, List<String> errors, long taken, long refused)
      throws IOException {
    if (response.isCommitted()) {
      return;
    }
    response.resetBuffer();
    headers(response);
    response.setStatus(status);
    if (status == HttpServletResponse.SC_SERVICE_UNAVAILABLE || status == TOO_MANY) {
      response.setHeader("Retry-After", "1");
    }
    if (status == TOO_LARGE) {
      // Else Jetty would wait for the rest of the body, to serve another request after it.
      response.setHeader("Connection", "close");
    }
    byte[] body = json(errors, taken, refused).getBytes(StandardCharsets.UTF_8);
    response.setContentType("application/json; charset=UTF-8");
    response.setContentLength(body.length);
    response.getOutputStream().write(body);
    // Now: the sender may wait for it before it goes on, or goes away.
    response.flushBuffer();
  }

  static String json(List<String> errors, long taken, long refused) {
    StringBuilder json = new StringBuilder("{\"errors\":[");
    for (int i = 0; i < errors.size(); i++) {
      quote(json.append(i == 0 ? "" : ","), errors.get(i));
    }
    json.append(']');
    if (taken >= 0) {
      json.append(",\"taken\":").append(taken);
    }
    if (refused >= 0) {
      json.append(",\"refused\":").append(refused);
    }
    return json.append('}').toString();
  }

  private static void quote(StringBuilder json, String text) {
    json.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        json.append('\\').append(c);
      } else if (c < ' ' || c == 0x7f || c == 0x2028 || c == 0x2029) {
        json.append(String.format("\\u%04x", (int) c));
      } else {
        json.append(c);
      }
    }
    json.append('"');
  }
}
