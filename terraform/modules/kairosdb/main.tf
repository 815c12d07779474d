locals {
  # Name => zone, dealt in turn as storage nodes are.
  nodes = { for i in range(var.nodes) : "kairosdb-${i + 1}" => i % length(var.site.subnets) }
}

module "node" {
  source   = "../instance"
  for_each = local.nodes

  name              = each.key
  role              = "kairosdb"
  zone_index        = each.value
  site              = var.site
  image             = var.image
  type              = var.type
  security_group_id = var.security_group_id
  profile           = var.profile
  data_volume_gib   = var.queue_volume_gib
  protect           = var.protect
}

resource "aws_lb" "rest" {
  # checkov:skip=CKV_AWS_150: var.protect decides; an experiment that may not be deleted by default would be paid for by default
  # checkov:skip=CKV_AWS_91: a network load balancer logs TLS connections only, and this one passes TCP on
  name                             = "${var.site.name}-kairosdb"
  load_balancer_type               = "network"
  internal                         = true
  subnets                          = var.site.subnets[*].id
  security_groups                  = [var.load_balancer_security_group_id]
  enable_cross_zone_load_balancing = true # the same share for each node, however many are in its zone
  enable_deletion_protection       = var.protect

  tags = { Name = "${var.site.name}-kairosdb" }
}

resource "aws_lb_target_group" "rest" {
  name     = "${var.site.name}-kairosdb"
  protocol = "TCP"
  port     = var.port
  vpc_id   = var.vpc_id

  health_check {
    protocol            = var.secured ? "HTTPS" : "HTTP"
    port                = "traffic-port"
    path                = "/api/v1/health/check"
    matcher             = "204" # healthy; 500 if it cannot reach its store
    interval            = 10    # seconds
    timeout             = 6
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }

  tags = { Name = "${var.site.name}-kairosdb" }
}

resource "aws_lb_listener" "rest" {
  load_balancer_arn = aws_lb.rest.arn
  protocol          = "TCP"
  port              = var.port

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.rest.arn
  }

  tags = { Name = "${var.site.name}-kairosdb" }
}

resource "aws_lb_target_group_attachment" "rest" {
  for_each = local.nodes

  target_group_arn = aws_lb_target_group.rest.arn
  target_id        = module.node[each.key].host.instance_id
  port             = var.port
}

resource "aws_route53_record" "rest" {
  zone_id = var.site.dns_zone_id
  name    = "kairosdb.${var.site.domain}"
  type    = "A"

  alias {
    name                   = aws_lb.rest.dns_name
    zone_id                = aws_lb.rest.zone_id
    evaluate_target_health = false # there is no other record to answer with
  }

  # The zone is ours alone, and a record that an interrupted apply made is not in the state yet.
  allow_overwrite = true
}
