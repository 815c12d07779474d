# Who may open a connection to whom: every rule that there is.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name     = "kairoscope"
  vpc_id   = "vpc-1"
  vpc_cidr = "10.42.0.0/16"
  ports = {
    cql           = 9042, cql_tls = 9142, cql_shard_aware = 19042, cql_shard_aware_tls = 19142
    storage       = 7000, storage_tls = 7001, storage_metrics = 9180, scylla_api = 10000
    node_exporter = 9100, loader_metrics = 9105, kairosdb_http = 8080, kairosdb_telnet = 4242
  }
  bastion           = true
  admin_cidrs       = ["198.51.100.0/24", "203.0.113.7/32"]
  nat               = true
  endpoints         = false
  s3_prefix_list_id = "pl-1"
}

run "with_a_bastion_and_nat" {
  command = plan

  module {
    source = "./modules/security"
  }

  assert {
    condition = { for key, rule in aws_vpc_security_group_ingress_rule.between : key => rule.from_port } == {
      storage-cql-from-kairosdb                 = 9042
      storage-cql_tls-from-kairosdb             = 9142
      storage-cql_shard_aware-from-kairosdb     = 19042
      storage-cql_shard_aware_tls-from-kairosdb = 19142
      storage-storage-from-storage              = 7000
      storage-storage_tls-from-storage          = 7001
      storage-storage_metrics-from-monitoring   = 9180
      storage-node_exporter-from-monitoring     = 9100
      kairosdb-node_exporter-from-monitoring    = 9100
      loader-node_exporter-from-monitoring      = 9100
      loader-loader_metrics-from-monitoring     = 9105
      kairosdb-kairosdb_http-from-loader        = 8080
      kairosdb-kairosdb_http-from-monitoring    = 8080
      kairosdb-kairosdb_telnet-from-loader      = 4242
      kairosdb-kairosdb_http-from-load_balancer = 8080
      load_balancer-kairosdb_http-from-loader   = 8080
      storage-ssh-from-bastion                  = 22
      kairosdb-ssh-from-bastion                 = 22
      loader-ssh-from-bastion                   = 22
      monitoring-ssh-from-bastion               = 22
    }
    error_message = "Rules between groups: ${join(", ", keys(aws_vpc_security_group_ingress_rule.between))}."
  }

  assert {
    condition = alltrue([
      for rule in aws_vpc_security_group_ingress_rule.between :
      rule.ip_protocol == "tcp" && rule.to_port == rule.from_port && rule.cidr_ipv4 == null && rule.description != ""
    ])
    error_message = "Each rule is for one TCP port, from a group and not from addresses, and says why."
  }

  assert {
    condition = { for key, rule in aws_vpc_security_group_ingress_rule.admin : rule.cidr_ipv4 => rule.from_port } == {
      "198.51.100.0/24" = 22, "203.0.113.7/32" = 22
    }
    error_message = "From outside: port 22 of the bastion host, from admin_cidrs."
  }

  assert {
    condition = toset([for rule in aws_vpc_security_group_egress_rule.internet : "${rule.cidr_ipv4} ${rule.from_port}-${rule.to_port}"]) == toset([
      "0.0.0.0/0 80-80", "0.0.0.0/0 443-443"
    ])
    error_message = "To the internet: HTTP and HTTPS."
  }

  assert {
    condition     = length(aws_vpc_security_group_egress_rule.internet) == 10 && length(aws_vpc_security_group_egress_rule.s3) == 0
    error_message = "To the internet: from the four groups of hosts and the bastion host, not from the load balancer."
  }

  assert {
    condition     = keys(aws_vpc_security_group_egress_rule.vpc) == ["kairosdb-to-vpc", "loader-to-vpc", "monitoring-to-vpc", "storage-to-vpc"]
    error_message = "Within the network: the four groups of hosts."
  }

  assert {
    condition     = keys(aws_vpc_security_group_egress_rule.bastion) == ["kairosdb", "loader", "monitoring", "storage"] && alltrue([for rule in aws_vpc_security_group_egress_rule.bastion : rule.from_port == 22 && rule.to_port == 22])
    error_message = "The bastion host: SSH to hosts, and no more."
  }

  assert {
    condition     = aws_vpc_security_group_egress_rule.load_balancer.from_port == 8080 && aws_vpc_security_group_egress_rule.load_balancer.to_port == 8080
    error_message = "The load balancer: KairosDB's REST port."
  }

  assert {
    condition     = [for group in aws_security_group.role : group.name] == ["kairoscope-bastion", "kairoscope-kairosdb", "kairoscope-load-balancer", "kairoscope-loader", "kairoscope-monitoring", "kairoscope-storage"]
    error_message = "Groups are others."
  }
}

run "without_bastion_or_nat" {
  command = plan

  module {
    source = "./modules/security"
  }

  variables {
    bastion     = false
    admin_cidrs = ["203.0.113.7/32"] # not used then
    nat         = false
    endpoints   = true
  }

  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.admin) == 0 && length(aws_vpc_security_group_egress_rule.bastion) == 0 && length([for rule in aws_vpc_security_group_ingress_rule.between : rule if rule.from_port == 22]) == 0
    error_message = "Port 22 must be closed everywhere."
  }

  assert {
    condition     = length(aws_vpc_security_group_egress_rule.internet) == 0
    error_message = "Nothing may leave for the internet."
  }

  assert {
    condition     = alltrue([for rule in aws_vpc_security_group_egress_rule.s3 : rule.prefix_list_id == "pl-1" && rule.from_port == 443]) && length(aws_vpc_security_group_egress_rule.s3) == 4
    error_message = "The bucket is reached through the endpoint, by HTTPS."
  }

  assert {
    condition = [for key, rule in aws_vpc_security_group_ingress_rule.between : key if rule.from_port == 443] == [
      "endpoints-https-from-kairosdb", "endpoints-https-from-loader", "endpoints-https-from-monitoring", "endpoints-https-from-storage",
    ]
    error_message = "Systems Manager is reached through the endpoints, from hosts."
  }
}
