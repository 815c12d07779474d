locals {
  # One public subnet, in the first zone, and only for what needs it: the bastion host and the NAT gateway.
  public = var.nat || var.public
}

resource "aws_vpc" "main" {
  # checkov:skip=CKV2_AWS_12: nobody is in the default group, and to empty it takes the permission to change every group of the account, as it bears no tag of ours
  # checkov:skip=CKV2_AWS_11: no flow logs: hosts live for the hours of a run, and nobody but admin_cidrs gets in; the log of a load test would be paid for and not read
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true

  tags = { Name = var.name }
}

resource "aws_subnet" "private" {
  count = var.zone_count

  vpc_id            = aws_vpc.main.id
  availability_zone = var.zones[count.index]
  # Sixteenths of the range: the first ones private, the last one public.
  cidr_block = cidrsubnet(var.cidr, 4, count.index)

  tags = { Name = "${var.name}-private-${count.index + 1}" }
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.main.id

  tags = { Name = "${var.name}-private" }
}

resource "aws_route_table_association" "private" {
  count = var.zone_count

  subnet_id      = aws_subnet.private[count.index].id
  route_table_id = aws_route_table.private.id
}

resource "aws_vpc_endpoint" "s3" {
  vpc_id          = aws_vpc.main.id
  service_name    = "com.amazonaws.${var.region}.s3"
  route_table_ids = [aws_route_table.private.id]

  tags = { Name = "${var.name}-s3" }
}

resource "aws_subnet" "public" {
  count = local.public ? 1 : 0

  vpc_id            = aws_vpc.main.id
  availability_zone = var.zones[0]
  cidr_block        = cidrsubnet(var.cidr, 4, 15)

  tags = { Name = "${var.name}-public" }
}

resource "aws_internet_gateway" "main" {
  count = local.public ? 1 : 0

  vpc_id = aws_vpc.main.id

  tags = { Name = var.name }
}

resource "aws_route_table" "public" {
  count = local.public ? 1 : 0

  vpc_id = aws_vpc.main.id

  tags = { Name = "${var.name}-public" }
}

resource "aws_route" "internet" {
  count = local.public ? 1 : 0

  route_table_id         = aws_route_table.public[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.main[0].id
}

resource "aws_route_table_association" "public" {
  count = local.public ? 1 : 0

  subnet_id      = aws_subnet.public[0].id
  route_table_id = aws_route_table.public[0].id
}

# One for all zones: it serves packages and updates, not the load, so it may fail with its zone.
resource "aws_eip" "nat" {
  count = var.nat ? 1 : 0

  domain = "vpc"

  tags = { Name = "${var.name}-nat" }
}

resource "aws_nat_gateway" "main" {
  count = var.nat ? 1 : 0

  subnet_id     = aws_subnet.public[0].id
  allocation_id = aws_eip.nat[0].id

  tags = { Name = var.name }

  # It does not start without the way to the internet, which nothing above mentions.
  depends_on = [aws_route.internet]
}

resource "aws_route" "nat" {
  count = var.nat ? 1 : 0

  route_table_id         = aws_route_table.private.id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.main[0].id
}

resource "aws_route53_zone" "private" {
  name    = "${var.name}.internal"
  comment = "Hosts of ${var.name}"

  vpc {
    vpc_id = aws_vpc.main.id
  }
}
