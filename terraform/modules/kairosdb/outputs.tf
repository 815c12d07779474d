output "hosts" {
  description = "Hosts by name; see module instance."
  value       = { for name, node in module.node : name => node.host }
}

output "url" {
  description = "URL of KairosDB's REST interface, through the load balancer; it answers within the network only."
  value       = "${var.secured ? "https" : "http"}://${aws_route53_record.rest.name}:${var.port}"
}
