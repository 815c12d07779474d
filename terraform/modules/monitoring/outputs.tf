output "hosts" {
  description = "Hosts by name; see module instance."
  value       = { for name, node in module.node : name => node.host }
}
