package io.kairoscope.kairosdb.door;

import io.kairoscope.kairosdb.queue.NotTakenError;
import java.util.List;
import javax.inject.Singleton;
import javax.ws.rs.core.MediaType;
import javax.ws.rs.core.Response;
import javax.ws.rs.ext.ExceptionMapper;
import javax.ws.rs.ext.Provider;

/** Points that come by KairosDB's event bus, of whatever resource, and cannot be taken now. */
@Provider
@Singleton
public class NotTakenMapper implements ExceptionMapper<NotTakenError> {
  @Override
  public Response toResponse(NotTakenError error) {
    return Response.status(Response.Status.SERVICE_UNAVAILABLE)
        .header("Retry-After", "1")
        .header("Access-Control-Allow-Origin", "*")
        .type(MediaType.APPLICATION_JSON_TYPE)
        .entity(Answer.json(List.of(error.getMessage()), -1, -1))
        .build();
  }
}
