# What Kairoscope reads by `terraform output -json` to make Ansible's inventory.

output "hosts" {
  description = "Hosts by name: group, address (private IPv4), dns (private name), instance_id, instance_type, image, vcpus, zone, rack, data_devices and ssh_user."
  value       = merge(module.storage.hosts, module.kairosdb.hosts, module.loader.hosts, module.monitoring.hosts)
}

output "ports" {
  description = "TCP port of each service."
  value       = local.ports
}

output "access" {
  description = "How hosts are reached: ssh (through the bastion host) or ssm."
  value       = var.access
}

output "bastion" {
  description = "Public address of the bastion host; null with access = \"ssm\"."
  value       = module.access.bastion
}

output "bastion_user" {
  description = "Who logs in to the bastion host; null with access = \"ssm\"."
  value       = module.access.bastion_user
}

output "bastion_instance" {
  description = "Id of the bastion host's instance; null with access = \"ssm\"."
  value       = module.access.bastion_instance
}

output "region" {
  description = "AWS region."
  value       = var.region
}

output "name" {
  description = "Prefix of all names."
  value       = var.name
}

output "kairosdb_url" {
  description = "URL of KairosDB's REST interface through the load balancer; it answers loader hosts only."
  value       = module.kairosdb.url
}

output "results_bucket" {
  description = "Name of the S3 bucket for results and backups."
  value       = module.results.bucket
}

output "protect" {
  description = "Whether data is protected from being destroyed."
  value       = var.protect
}

output "vpc_cidr" {
  description = "Addresses of the network that everything is in."
  value       = var.vpc_cidr
}
