locals {
  roles = toset(["storage", "kairosdb", "loader", "monitoring"])
}

resource "aws_iam_role" "host" {
  for_each = local.roles

  name                 = "${var.prefix}-${each.key}"
  description          = "Hosts of ${var.prefix}: ${each.key}"
  permissions_boundary = var.boundary

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })

  tags = { Name = "${var.prefix}-${each.key}" }
}

resource "aws_iam_instance_profile" "host" {
  for_each = local.roles

  name = aws_iam_role.host[each.key].name
  role = aws_iam_role.host[each.key].name

  tags = { Name = "${var.prefix}-${each.key}" }
}

# Storage hosts send backups by themselves (operate schedule-backups), and nothing else on hosts uses the bucket. None may
# read or delete there: whoever breaks into a host gets at no other's data, and takes no backup away. What it writes over
# stays as a version for 30 days.
resource "aws_iam_role_policy" "backups" {
  name = "backups"
  role = aws_iam_role.host["storage"].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["s3:AbortMultipartUpload", "s3:PutObject"]
      Resource = "${var.bucket_arn}/backups/scheduled/*"
    }]
  })
}

# What sessions need and no more: the managed policy AmazonSSMManagedInstanceCore lets a host read every
# parameter of the account.
resource "aws_iam_role_policy" "ssm" {
  # checkov:skip=CKV_AWS_290: AWS takes no narrower resource than * for these actions
  # checkov:skip=CKV_AWS_355: AWS takes no narrower resource than * for these actions
  for_each = var.ssm ? local.roles : []

  name = "ssm"
  role = aws_iam_role.host[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = [
        "ssm:UpdateInstanceInformation",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
      ]
      Resource = "*"
    }]
  })
}
