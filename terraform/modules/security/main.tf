locals {
  hosts = ["storage", "kairosdb", "loader", "monitoring"]
  ports = merge(var.ports, { ssh = 22, http = 80, https = 443 })

  groups = merge(
    {
      storage       = "ScyllaDB nodes"
      kairosdb      = "KairosDB nodes"
      loader        = "Hosts that emulate sensors"
      monitoring    = "Monitoring host; its own pages are reached by an SSH tunnel only"
      load_balancer = "Load balancer in front of KairosDB"
    },
    var.bastion ? { bastion = "Bastion host" } : {},
    var.endpoints ? { endpoints = "Interface endpoints of AWS services" } : {},
  )

  # Who may open a connection to whom, and why. There is nothing else: what is not here is refused.
  allowed = concat(
    [
      { to = "storage", from = ["kairosdb"], ports = ["cql", "cql_tls", "cql_shard_aware", "cql_shard_aware_tls"], why = "CQL" },
      { to = "storage", from = ["storage"], ports = ["storage", "storage_tls"], why = "Between storage nodes" },
      { to = "storage", from = ["monitoring"], ports = ["storage_metrics"], why = "Metrics of the storage node" },
      { to = "kairosdb", from = ["loader"], ports = ["kairosdb_http", "kairosdb_telnet"], why = "Points" },
      { to = "kairosdb", from = ["monitoring"], ports = ["kairosdb_http"], why = "Metrics of KairosDB" },
      { to = "kairosdb", from = ["load_balancer"], ports = ["kairosdb_http"], why = "Balanced requests and health checks" },
      { to = "load_balancer", from = ["loader"], ports = ["kairosdb_http"], why = "Requests to balance" },
      { to = "storage", from = ["monitoring"], ports = ["node_exporter"], why = "Metrics of the host" },
      { to = "kairosdb", from = ["monitoring"], ports = ["node_exporter"], why = "Metrics of the host" },
      { to = "loader", from = ["monitoring"], ports = ["node_exporter"], why = "Metrics of the host" },
      { to = "loader", from = ["monitoring"], ports = ["loader_metrics"], why = "What the sensors see, while a load runs" },
    ],
    [for host in local.hosts : { to = host, from = ["bastion"], ports = ["ssh"], why = "SSH through the bastion host" } if var.bastion],
    var.endpoints ? [{ to = "endpoints", from = local.hosts, ports = ["https"], why = "AWS services without NAT" }] : [],
  )

  between = {
    for rule in flatten([
      for row in local.allowed : [
        for pair in setproduct(row.from, row.ports) : { to = row.to, from = pair[0], port = pair[1], why = row.why }
      ]
    ]) : "${rule.to}-${rule.port}-from-${rule.from}" => rule
  }

  # Outwards, beside answers to what is allowed above.
  to_vpc      = { for host in local.hosts : "${host}-to-vpc" => host }
  to_s3       = { for host in local.hosts : "${host}-to-s3" => host if !var.nat } # with NAT it is in the next
  to_internet = { for pair in setproduct(concat(local.hosts, var.bastion ? ["bastion"] : []), ["http", "https"]) : "${pair[0]}-${pair[1]}-to-internet" => { from = pair[0], port = pair[1] } if var.nat }
}

resource "aws_security_group" "role" {
  # checkov:skip=CKV2_AWS_5: all are attached, in other modules, which the check does not see
  for_each = local.groups

  name        = "${var.name}-${replace(each.key, "_", "-")}"
  description = each.value
  vpc_id      = var.vpc_id

  tags = { Name = "${var.name}-${replace(each.key, "_", "-")}" }
}

resource "aws_vpc_security_group_ingress_rule" "between" {
  for_each = local.between

  security_group_id            = aws_security_group.role[each.value.to].id
  referenced_security_group_id = aws_security_group.role[each.value.from].id
  ip_protocol                  = "tcp"
  from_port                    = local.ports[each.value.port]
  to_port                      = local.ports[each.value.port]
  description                  = "${each.value.why}: ${each.value.port} from ${each.value.from}"

  tags = { Name = each.key }
}

resource "aws_vpc_security_group_ingress_rule" "admin" {
  for_each = var.bastion ? toset(var.admin_cidrs) : []

  security_group_id = aws_security_group.role["bastion"].id
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = local.ports.ssh
  to_port           = local.ports.ssh
  description       = "SSH from admin_cidrs"

  tags = { Name = "bastion-ssh-from-${each.value}" }
}

resource "aws_vpc_security_group_egress_rule" "vpc" {
  for_each = local.to_vpc

  security_group_id = aws_security_group.role[each.value].id
  cidr_ipv4         = var.vpc_cidr
  ip_protocol       = "-1"
  description       = "Within the network; who is let in is the other side's rule"

  tags = { Name = each.key }
}

resource "aws_vpc_security_group_egress_rule" "s3" {
  for_each = local.to_s3

  security_group_id = aws_security_group.role[each.value].id
  prefix_list_id    = var.s3_prefix_list_id
  ip_protocol       = "tcp"
  from_port         = local.ports.https
  to_port           = local.ports.https
  description       = "S3, through the endpoint"

  tags = { Name = each.key }
}

resource "aws_vpc_security_group_egress_rule" "internet" {
  for_each = local.to_internet

  security_group_id = aws_security_group.role[each.value.from].id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = local.ports[each.value.port]
  to_port           = local.ports[each.value.port]
  description       = "Packages and updates: ${each.value.port}"

  tags = { Name = each.key }
}

resource "aws_vpc_security_group_egress_rule" "bastion" {
  for_each = toset(var.bastion ? local.hosts : [])

  security_group_id            = aws_security_group.role["bastion"].id
  referenced_security_group_id = aws_security_group.role[each.value].id
  ip_protocol                  = "tcp"
  from_port                    = local.ports.ssh
  to_port                      = local.ports.ssh
  description                  = "SSH to ${each.value}"

  tags = { Name = "bastion-ssh-to-${each.value}" }
}

resource "aws_vpc_security_group_egress_rule" "load_balancer" {
  security_group_id            = aws_security_group.role["load_balancer"].id
  referenced_security_group_id = aws_security_group.role["kairosdb"].id
  ip_protocol                  = "tcp"
  from_port                    = local.ports.kairosdb_http
  to_port                      = local.ports.kairosdb_http
  description                  = "Balanced requests and health checks"

  tags = { Name = "load-balancer-to-kairosdb" }
}
