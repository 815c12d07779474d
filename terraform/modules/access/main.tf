# The public half only: EC2 puts it on each host at its first boot.
resource "aws_key_pair" "admin" {
  key_name   = var.name
  public_key = trimspace(var.ssh_public_key)

  tags = { Name = var.name }
}

module "bastion" {
  source   = "../instance"
  for_each = toset(var.bastion == null ? [] : ["bastion"])

  name              = each.key
  role              = "bastion"
  zone_index        = 0
  image             = var.bastion.image
  type              = var.bastion.type
  security_group_id = var.bastion.security_group_id

  site = {
    name        = var.name
    subnets     = var.public_subnets
    domain      = var.domain
    dns_zone_id = var.dns_zone_id
    key_name    = aws_key_pair.admin.key_name
  }
}

# An address of its own: it stays when the host is made anew, and the subnet gives none to anybody.
resource "aws_eip" "bastion" {
  # checkov:skip=CKV2_AWS_19: it is attached, to an instance in another module, which the check does not see
  for_each = module.bastion

  domain   = "vpc"
  instance = each.value.host.instance_id

  tags = { Name = "${var.name}-bastion" }
}

resource "aws_vpc_endpoint" "ssm" {
  for_each = toset(var.endpoints == null ? [] : ["ssm", "ssmmessages"])

  vpc_id              = var.vpc_id
  service_name        = "com.amazonaws.${var.region}.${each.key}"
  vpc_endpoint_type   = "Interface"
  private_dns_enabled = true
  subnet_ids          = var.private_subnets[*].id
  security_group_ids  = [var.endpoints.security_group_id]

  tags = { Name = "${var.name}-${each.key}" }
}
