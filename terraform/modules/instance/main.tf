locals {
  protect = var.protect == true # and not null

  subnet = var.site.subnets[var.zone_index]
  tags   = { Name = "${var.site.name}-${var.name}", Role = var.role }
}

data "aws_default_tags" "all" {}

resource "aws_instance" "host" {
  # checkov:skip=CKV_AWS_126: CloudWatch's detailed metrics cost extra and are coarser than what the monitoring host gathers
  ami                     = var.image.id
  instance_type           = var.type.name
  subnet_id               = local.subnet.id
  vpc_security_group_ids  = [var.security_group_id]
  key_name                = var.site.key_name
  iam_instance_profile    = var.profile
  user_data               = var.image.user_data
  placement_group         = var.placement_group
  ebs_optimized           = true
  disable_api_termination = local.protect
  disable_api_stop        = local.protect && length(var.local_disks) > 0

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    encrypted   = true
    volume_type = "gp3"
    volume_size = var.root_gib
  }

  # Of the root volume, given as it is made: with tags of the block the provider tags it afterwards (createTags in its
  # internal/service/ec2/ec2_instance.go), which takes the permission to tag any volume of the account.
  volume_tags = merge(data.aws_default_tags.all.tags, local.tags)

  dynamic "instance_market_options" {
    for_each = var.spot ? ["spot"] : []

    content {
      market_type = "spot"

      spot_options {
        spot_instance_type = "one-time"
      }
    }
  }

  tags = local.tags

  lifecycle {
    # A newer image must not replace a host that holds data, and other first-boot data would stop it in
    # vain. Both come with an instance that is made anew. The tags of volumes are read of the data volume too.
    ignore_changes = [ami, user_data, volume_tags]
  }
}

resource "aws_route53_record" "host" {
  zone_id = var.site.dns_zone_id
  name    = "${var.name}.${var.site.domain}"
  type    = "A"
  ttl     = 60
  records = [aws_instance.host.private_ip]

  # The zone is ours alone, and a record that an interrupted apply made is not in the state yet.
  allow_overwrite = true
}

resource "aws_ebs_volume" "data" {
  count = var.data_volume_gib == null ? 0 : 1

  # checkov:skip=CKV_AWS_189: encrypted with the account's EBS key; a key of one's own adds cost and a key policy, and nobody else is to be kept out
  # The subnet's zone, not the instance's: an instance that is made anew has none yet, and would take the volume with it.
  availability_zone = local.subnet.zone
  encrypted         = true
  type              = "gp3"
  size              = var.data_volume_gib

  tags = merge(local.tags, { Name = "${local.tags.Name}-data" })
}

resource "aws_volume_attachment" "data" {
  count = var.data_volume_gib == null ? 0 : 1

  instance_id = aws_instance.host.id
  volume_id   = aws_ebs_volume.data[0].id
  device_name = "/dev/sdf"
  # Not detached from a host that runs and writes: ending the instance does that.
  skip_destroy = true
}

# AWS's own protection, above, is against everybody else.
module "protection" {
  source = "../protection"
  count  = var.protect == null ? 0 : 1

  what    = local.tags.Name
  protect = local.protect
  ids     = concat([aws_instance.host.id], aws_ebs_volume.data[*].id)
}
